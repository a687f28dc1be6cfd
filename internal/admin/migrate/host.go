package migrate

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/firewall"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
)

// Host is all of a node that says who does its DNS, as one value. Survey fills it; tests write it by hand.
type Host struct {
	State hostdns.State // what node-dns's own hook sees
	Plan  hostdns.Plan  // what it would do: hostdns.NewPlan(State)

	Dnsmasq    dnsmasqconf.Config // what dnsmasq's files say
	DnsmasqErr error              // their faults

	Files     map[string]hostdns.File // of the origins' paths those that exist
	Units     map[string]Unit         // of the origins' units all
	Holders   []Holder                // of port 53, and of the ports of DHCP and TFTP
	Rules     []Rule                  // of iptables, where NodeLocal DNSCache is or was
	HasNFT    bool                    // nft(8) is there
	Filter    firewall.State          // what filters packets to this host
	Kubelet   Kubelet                 // zero: it is left alone
	Rehearsal Rehearsal               // zero: nothing was tried
	Fixed     bool                    // nobody may change /etc/resolv.conf (chattr(1), +i)
	Root      bool                    // we are root, or look below another: without, Holders have no names
}

// Unit is what systemd knows of one (systemctl show).
type Unit struct {
	Load   string `json:"load"`             // LoadState: loaded, masked, not-found
	Active string `json:"active"`           // ActiveState: active, inactive, failed, and between these
	File   string `json:"file"`             // UnitFileState: enabled, disabled, static, and more; "": there is no file
	Path   string `json:"path,omitempty"`   // FragmentPath
	DropIn string `json:"dropin,omitempty"` // DropInPaths

	Sub      string `json:"-"` // SubState: running, dead, auto-restart, and more
	Result   string `json:"-"` // of the last run: success, exit-code, start-limit-hit, and more
	Restarts string `json:"-"` // how often systemd has restarted it by itself; "" of what is no service
}

// IsActive reports whether its processes run, or are about to.
func (u Unit) IsActive() bool {
	return u.Active == "active" || u.Active == "activating" || u.Active == "reloading"
}

// Holder is a socket at a port that matters here, and whose it is.
type Holder struct {
	Proto string // udp or tcp
	Addr  netip.AddrPort
	PID   int    // 0: not known, as of a process that is not ours to look at
	Name  string // of the program (proc_pid_comm(5))
	Unit  string // of systemd; "": none, or not known
	// Container says that the process is in one.
	Container bool
}

// String is whose it is.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "a program"
	case h.Unit == "":
		return fmt.Sprintf("%s (process %d)", h.Name, h.PID)
	}
	return fmt.Sprintf("%s of %s", h.Name, h.Unit)
}

// Covers reports whether nobody else can have port 53 of an address.
func (h Holder) Covers(at netip.AddrPort) bool {
	if h.Addr.Port() != at.Port() {
		return false
	}
	bound := h.Addr.Addr()
	return isAt(h.Addr, at) || bound.IsUnspecified() && (bound.Is6() || at.Addr().Is4())
}

// isAt reports whether a socket's address is this one. The kernel's tables of sockets do not name the zone of a link-local address
// (proc_pid_net(5)): a socket without one is at that address of every link.
func isAt(socket, at netip.AddrPort) bool {
	return socket == at || socket == netip.AddrPortFrom(at.Addr().WithZone(""), at.Port())
}

// Ports of what a dnsmasq does beside DNS.
const (
	portDNS    = 53
	portDHCP   = 67
	portTFTP   = 69
	portDHCPv6 = 547
)

// holds reports whether a unit has a socket at one of these ports.
func (h Host) holds(unit string, ports ...uint16) bool {
	return slices.ContainsFunc(h.Holders, func(holder Holder) bool { return holder.Unit == unit && slices.Contains(ports, holder.Addr.Port()) })
}

// holdersWhere returns the sockets for which is reports true.
func (h Host) holdersWhere(is func(Holder) bool) []Holder {
	return slices.DeleteFunc(slices.Clone(h.Holders), func(holder Holder) bool { return !is(holder) })
}

// heldLines say who holds port 53 of which address, a line each.
func heldLines(holders []Holder) (lines []string) {
	for _, holder := range holders {
		if line := fmt.Sprintf("%v holds port 53 of %v", holder, holder.Addr.Addr()); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// agents are the programs that run a node's pods and their network, as patterns of their units' names without ".service", and of
// their processes' names (comm): kubelets, container runtimes, and the SDN. Some have a nameserver on port 53, as SkyDNS in
// OpenShift 3's node process on 127.0.0.1. A node does not survive their end, so no advice and no step stops or disables one.
var agents = []string{
	"origin-node", "atomic-openshift-node", "origin-master*", "atomic-openshift-master*", "openshift", "openshift-sdn*", "hyperkube", "hypershift*",
	"kubelet", "kubelet-*", "snap.microk8s.*", "snap.kubelet*", "k3s", "k3s-*", "k0s*", "rke2", "rke2-*", "microshift", "microshift-*", "etcd",
	"crio", "crio-*", "cri-o", "containerd", "containerd-*", "cri-dockerd", "docker", "docker-*", "dockerd", "podman", "conmon",
	"kube-proxy", "sdn", "sdn-*", "ovs-*", "openvswitch", "openvswitch-*", "ovsdb-server", "ovn-*", "ovnkube*", "node-agent",
	"calico-*", "cilium*", "flanneld", "machine-config-daemon*", "NetworkManager",
}

// IsNodeAgent reports whether a node needs a unit, or a process by its proc_pid_comm(5); "" is none.
func IsNodeAgent(name string) bool {
	name = strings.TrimSuffix(name, ".service") // a container's scope is crio-ID.scope
	return !strings.HasSuffix(name, ".scope") && slices.ContainsFunc(agents, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the patterns are ours
		return ok
	})
}

// containerParts are the beginnings of control groups' names that container runtimes make.
var containerParts = []string{"kubepods", "crio-", "cri-containerd-", "docker-", "libpod-", "nerdctl-"}

// parseContainer reports whether proc_pid_cgroup(5) is that of a process in a container. A service is none, wherever its systemd runs.
func parseContainer(text string) bool {
	for line := range strings.Lines(text) {
		for _, part := range slices.Backward(strings.Split(strings.TrimSpace(line), "/")) {
			if strings.HasSuffix(part, ".service") {
				break
			}
			if part == "docker" || slices.ContainsFunc(containerParts, func(prefix string) bool { return strings.HasPrefix(part, prefix) }) {
				return true
			}
		}
	}
	return false
}

// IsNodeAgent reports whether a node needs the holder: a node agent, or a container, which an agent would start again.
func (h Holder) IsNodeAgent() bool {
	return h.Container || IsNodeAgent(h.Unit) || h.Unit == "" && IsNodeAgent(h.Name)
}

// Nameserver describes this node's nameserver after the migration, and its clients.
func (h Host) Nameserver() firewall.Nameserver {
	config := h.State.Config
	return firewall.Nameserver{Listen: h.listen(), Net: h.State.Net, PodCIDRs: config.PodCIDRs, AllowFrom: config.AllowFrom}
}

// filtered returns notes about input filters that drop DNS from clients. A migration does not change them.
func (h Host) filtered() []string {
	var notes []string
	for _, f := range h.Filter.Find(h.Nameserver()) {
		notes = append(notes, fmt.Sprintf("%s; fix: %s", f.What, f.Fix))
	}
	return notes
}
