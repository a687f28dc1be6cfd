package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/firewall"
	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// protocols are the transports of DNS without TLS. RFC 7766 requires a server to support both.
var protocols = []string{"udp", "tcp"}

// checkPort reports which programs use the addresses that we use or need. The kernel knows about
// all programs. Without it, checkPort relies on the daemon's status.
func checkPort(s Snapshot) []Finding {
	wanted := s.wanted()
	if len(wanted) == 0 {
		return nil // checkAddress reports the reason
	}
	if !s.Live {
		return portsByStatus(s.Status)
	}
	var found []Finding
	var ours, free []string
	for _, at := range wanted {
		h := s.holding(at)
		switch {
		case len(h.others) > 0 && s.isSpare(at) && !slices.ContainsFunc(h.others, func(h migrate.Holder) bool { return !h.IsNodeAgent() }):
			found = append(found, fine("%s is used by %s, as intended for OpenShift's own nameserver (%s)", at, h.others[0], s.Host.State.Config.Where("dnsBindAddress"))...)
		case len(h.others) > 0 && s.isSpare(at) && !at.Addr().IsLoopback():
			found = append(found, fine("%s is used by %s: pods currently use another address", at, h.others[0])...)
		case len(h.others) > 0:
			found = append(found, taken(at, h.others))
		case h.hidden && !s.Host.Root:
			found = append(found, warn(at.String()+": a process listens there that only root can identify", "run this as root"))
		case h.hidden:
			found = append(found, warn(at.String()+": a process listens there that is not visible from here: systemd for a socket unit, or a program in a container",
				"systemctl list-sockets shows socket units; node-dns@ADDRESS.socket is expected there"))
		case h.mine["udp"] && h.mine["tcp"]:
			ours = append(ours, at.String())
		case len(h.mine) > 0 || s.Status != nil:
			why := ""
			if says := s.listener(at).Error; says != "" {
				why = ": " + says
			}
			missing := slices.DeleteFunc(slices.Clone(protocols), func(p string) bool { return h.mine[p] })
			found = append(found, fail(fmt.Sprintf("node-dns does not listen on %s (%s)%s", at, strings.Join(missing, "+"), why), "systemctl restart node-dns"))
		default:
			free = append(free, at.String())
		}
	}
	if len(ours) > 0 {
		found = append(found, fine("%s: only node-dns listens (udp+tcp)", strings.Join(ours, ", "))...)
	}
	if len(free) > 0 {
		found = append(found, fine("%s: free for node-dns", strings.Join(free, ", "))...)
	}
	return found
}

type holding struct {
	mine   map[string]bool // by protocol
	others []migrate.Holder
	hidden bool // whether a process uses it that we cannot identify
}

func (s Snapshot) holding(at netip.AddrPort) holding {
	found := holding{mine: map[string]bool{}}
	l := s.listener(at)
	bound := map[string]bool{"udp": l.UDP, "tcp": l.TCP}
	for _, h := range s.Host.Holders {
		switch {
		case !h.Covers(at):
		case s.isOurs(h), h.PID == 0 && bound[h.Proto]: // systemd keeps it for the daemon (socket unit, descriptor store), or we are not root
			found.mine[h.Proto] = true
		case h.PID == 0:
			found.hidden = true
		case !slices.Contains(found.others, h): // a program may have several sockets at one address (SO_REUSEPORT)
			found.others = append(found.others, h)
		}
	}
	return found
}

// portsByStatus checks a daemon below another root, such as that of a test, by its status alone.
func portsByStatus(status *control.Status) []Finding {
	if status == nil {
		return nil
	}
	var found []Finding
	var ours []string
	for _, l := range status.Listeners {
		switch {
		case l.Error == "" && l.UDP && l.TCP:
			ours = append(ours, l.Address)
		case l.Spare:
			found = append(found, fine("%s is used by another program", l.Address)...)
		default:
			found = append(found, fail("node-dns does not listen on "+l.Address+": "+l.Error, "find the program that uses it: ss -lunp and ss -ltnp"))
		}
	}
	if len(ours) > 0 {
		found = append(found, fine("%s: node-dns listens (udp+tcp)", strings.Join(ours, ", "))...)
	}
	return found
}

func (s Snapshot) isOurs(h migrate.Holder) bool {
	return h.PID != 0 && (h.Unit == daemonUnit || s.Status != nil && h.PID == s.Status.PID)
}

// listener returns what the daemon reports about an address, or zero.
func (s Snapshot) listener(at netip.AddrPort) (l control.Listener) {
	if s.Status == nil {
		return l
	}
	if i := slices.IndexFunc(s.Status.Listeners, func(l control.Listener) bool { return l.Address == at.String() }); i >= 0 {
		l = s.Status.Listeners[i]
	}
	return l
}

// isSpare reports whether another program may use the address; see nodeconfig.Placement.Spare.
func (s Snapshot) isSpare(at netip.AddrPort) bool {
	return slices.Contains(s.Host.State.Placement().Spare, at)
}

// taken reports an address that other programs use, alone or together with us. Its advice must
// never be to stop a node agent.
func taken(at netip.AddrPort, others []migrate.Holder) Finding {
	var lines []string
	for _, h := range others {
		who := fmt.Sprintf("pid %d", h.PID)
		if h.Unit != "" {
			who += ", " + h.Unit
		}
		lines = append(lines, fmt.Sprintf("%s (%s) uses %s %s", h.Name, who, h.Addr, h.Proto))
	}
	h := others[0]
	if i := slices.IndexFunc(others, migrate.Holder.IsNodeAgent); i >= 0 {
		h = others[i]
	}
	name, fix := h.Name, fmt.Sprintf("stop it (kill %d) and find out what starts it", h.PID)
	switch {
	case h.Container && h.Unit == "":
		fix = "a container runtime started it and would restart it: crictl ps, podman ps or docker ps shows the container"
	case h.IsNodeAgent() && !h.Container:
		if h.Unit != "" {
			name += " of " + h.Unit
		}
		fix = "leave it running: this node needs it. Configure another address for its nameserver, or for node-dns: listen: in /etc/node-dns/node-dns.yaml"
	case strings.HasSuffix(h.Unit, ".service"):
		name, fix = h.Name+" of "+h.Unit, "node-dns migrate shows how node-dns can replace it without an outage; otherwise systemctl disable --now "+termtext.Quote(h.Unit)
	case h.Unit != "":
		name, fix = h.Name+" of "+h.Unit, "a container or a login session started it: systemctl status "+termtext.Quote(h.Unit)
	}
	return fail(at.String()+" is in use by "+name, fix, lines...)
}

// checkInputFilter checks whether firewalld, nftables or iptables drop DNS queries from clients.
// Other checks cannot notice that, because their queries arrive over loopback, which such filters
// accept.
func checkInputFilter(s Snapshot) []Finding {
	server := s.Host.Nameserver()
	server.Listen = s.wanted()
	var found []Finding
	for _, f := range s.Host.Filter.Find(server) {
		level := warn
		if f.Drops && f.Expected {
			level = fail
		}
		found = append(found, level(f.What, f.Fix, f.Details...))
	}
	names := firewall.Names(server.Links())
	if len(names) == 0 || s.Host.Filter.Firewalld == nil && s.Host.Filter.Rules == nil {
		return found
	}
	return orFine(found, "no input filter drops DNS from clients on %s", strings.Join(names, ", "))
}
