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
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Host is everything about a node that shows what serves its DNS, as one value. Survey fills it,
// and tests write it by hand.
type Host struct {
	State hostdns.State // what node-dns's own hook sees
	Plan  hostdns.Plan  // what the hook would do: hostdns.NewPlan(State)

	Dnsmasq    dnsmasqconf.Config // content of dnsmasq's files
	DnsmasqErr error              // errors in dnsmasq's files

	Files     map[string]hostdns.File // those of the origins' paths that exist
	Units     map[string]Unit         // all units of the origins
	Holders   []Holder                // sockets at port 53 and at the ports of DHCP and TFTP
	Rules     []Rule                  // iptables rules, if NodeLocal DNSCache is or was here
	HasNFT    bool                    // whether nft(8) is installed
	Filter    firewall.State          // filters for packets to this host
	Kubelet   Kubelet                 // zero if it must not be changed
	Intercept bool                    // whether an admin requests interception
	KubeProxy string                  // a trace of kube-proxy, if another network may have replaced it; empty if nothing shows that it runs
	Rehearsal Rehearsal               // zero if nothing was tried
	Fixed     bool                    // whether /etc/resolv.conf is immutable (chattr(1), +i)
	Root      bool                    // whether we are root or inspect another root; otherwise Holders have no names

	adds nodeconfig.Intercept // what the plan adds to node-dns.yaml
}

// Unit is the state of a systemd unit (systemctl show).
type Unit struct {
	Load   string `json:"load"`             // LoadState: loaded, masked, not-found
	Active string `json:"active"`           // ActiveState: active, inactive, failed, and transitions
	File   string `json:"file"`             // UnitFileState: enabled, disabled, static, and more; empty if there is no file
	Path   string `json:"path,omitempty"`   // FragmentPath
	DropIn string `json:"dropin,omitempty"` // DropInPaths

	Sub      string `json:"-"` // SubState: running, dead, auto-restart, and more
	Result   string `json:"-"` // result of the last run: success, exit-code, start-limit-hit, and more
	Restarts string `json:"-"` // number of automatic restarts; empty if the unit is not a service
}

// IsActive reports whether the unit's processes run or are about to.
func (u Unit) IsActive() bool {
	return u.Active == "active" || u.Active == "activating" || u.Active == "reloading"
}

// Holder is a socket at a relevant port, with its owner.
type Holder struct {
	Proto string // udp or tcp
	Addr  netip.AddrPort
	PID   int    // 0 if unknown, for example because we may not inspect the process
	Name  string // program name (proc_pid_comm(5))
	Unit  string // systemd unit; empty if there is none or it is unknown
	// Container is set if the process runs in a container.
	Container bool
}

// String describes the owner.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "a program"
	case h.Unit == "":
		return fmt.Sprintf("%s (process %d)", h.Name, h.PID)
	}
	return fmt.Sprintf("%s of %s", h.Name, h.Unit)
}

// Covers reports whether the socket prevents others from binding the address.
func (h Holder) Covers(at netip.AddrPort) bool {
	if h.Addr.Port() != at.Port() {
		return false
	}
	bound := h.Addr.Addr()
	return isAt(h.Addr, at) || bound.IsUnspecified() && (bound.Is6() || at.Addr().Is4())
}

// isAt reports whether a socket is bound to at. The kernel's socket tables omit the zone of a
// link-local address (proc_pid_net(5)), so a socket without a zone matches the address on every
// link.
func isAt(socket, at netip.AddrPort) bool {
	return socket == at || socket == netip.AddrPortFrom(at.Addr().WithZone(""), at.Port())
}

// Ports of DNS and of the other services of dnsmasq.
const (
	portDNS    = 53
	portDHCP   = 67
	portTFTP   = 69
	portDHCPv6 = 547
)

// holds reports whether a unit has a socket at one of the ports.
func (h Host) holds(unit string, ports ...uint16) bool {
	return slices.ContainsFunc(h.Holders, func(holder Holder) bool { return holder.Unit == unit && slices.Contains(ports, holder.Addr.Port()) })
}

// holdersWhere returns the sockets for which is reports true.
func (h Host) holdersWhere(is func(Holder) bool) []Holder {
	return slices.DeleteFunc(slices.Clone(h.Holders), func(holder Holder) bool { return !is(holder) })
}

// heldLines returns one line for each owner of port 53 and address.
func heldLines(holders []Holder) (lines []string) {
	for _, holder := range holders {
		if line := fmt.Sprintf("%v uses port 53 of %v", holder, holder.Addr.Addr()); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// agents are the programs that run a node's pods and virtual machines, and their network: kubelets,
// container runtimes, the SDN and libvirt. They are patterns for names of units (without
// ".service") and processes (comm). Some have a nameserver on port 53: SkyDNS in OpenShift 3's node
// process on 127.0.0.1, and a dnsmasq of libvirt for each network. A node does not work without
// them, so no advice and no step may stop or disable one.
var agents = []string{
	"origin-node", "atomic-openshift-node", "origin-master*", "atomic-openshift-master*", "openshift", "openshift-sdn*", "hyperkube", "hypershift*",
	"kubelet", "kubelet-*", "snap.microk8s.*", "snap.kubelet*", "k3s", "k3s-*", "k0s*", "rke2", "rke2-*", "microshift", "microshift-*", "etcd",
	"crio", "crio-*", "cri-o", "containerd", "containerd-*", "cri-dockerd", "docker", "docker-*", "dockerd", "podman", "conmon",
	"kube-proxy", "sdn", "sdn-*", "ovs-*", "openvswitch", "openvswitch-*", "ovsdb-server", "ovn-*", "ovnkube*", "node-agent",
	"calico-*", "cilium*", "flanneld", "machine-config-daemon*", "NetworkManager",
	"libvirtd", "virtnetworkd", "lxc-net", "lxd", "lxd-*", "snap.lxd.*", "incus", "incus-*",
}

// isNodeAgent reports whether a node needs a unit, or a process with this proc_pid_comm(5). An
// empty name is not an agent.
func isNodeAgent(name string) bool {
	name = strings.TrimSuffix(name, ".service") // the scope of a container is crio-ID.scope
	return !strings.HasSuffix(name, ".scope") && slices.ContainsFunc(agents, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the patterns are valid
		return ok
	})
}

// containerParts are the prefixes of control groups created by container runtimes.
var containerParts = []string{"kubepods", "crio-", "cri-containerd-", "docker-", "libpod-", "nerdctl-"}

// parseContainer reports whether proc_pid_cgroup(5) shows a process in a container. A service is
// not in a container, wherever its systemd runs.
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

// IsNodeAgent reports whether a node needs the holder: it is a node agent, or a container, which an
// agent would restart.
func (h Holder) IsNodeAgent() bool {
	return h.Container || isNodeAgent(h.Unit) || h.Unit == "" && isNodeAgent(h.Name)
}

// Nameserver describes this node's nameserver after the migration, and its clients.
func (h Host) Nameserver() firewall.Nameserver {
	config := h.State.Config
	return firewall.Nameserver{Listen: h.listen(), Net: h.State.Net, PodCIDRs: config.PodCIDRs, AllowFrom: config.AllowFrom}
}

// filtered returns notes about input filters that drop DNS queries from clients. A migration does
// not change them.
func (h Host) filtered() []string {
	var notes []string
	for _, f := range h.Filter.Find(h.Nameserver()) {
		notes = append(notes, fmt.Sprintf("%s; fix: %s", f.What, f.Fix))
	}
	return notes
}
