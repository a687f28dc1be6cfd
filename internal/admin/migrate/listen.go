package migrate

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// ourConfig is the admin's file. A migration only adds keys to it.
const ourConfig = "/etc/node-dns/node-dns.yaml"

// listen returns the addresses on port 53 that node-dns will use.
func (h Host) listen() []netip.AddrPort {
	var all []netip.AddrPort
	add := func(at netip.AddrPort) {
		if at.Port() == nameserver.Port && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	place := h.State.Placement()
	for _, at := range place.Listen {
		add(at)
	}
	for _, addr := range h.State.Net.Addrs {
		if place.All && isServable(addr) && !slices.Contains(place.Intercept, addr.Addr) {
			add(netip.AddrPortFrom(addr.Addr, nameserver.Port))
		}
	}
	if _, isSet := h.State.Config.Sources["listen"]; !isSet {
		for _, bound := range h.Dnsmasq.Bound(h.State.Net.Addrs) {
			if !bound.Addr.IsLoopback() {
				add(netip.AddrPortFrom(bound.Addr, nameserver.Port))
			}
		}
	}
	return all
}

// isServable reports whether `listen: all` includes an address.
func isServable(addr netstate.Addr) bool {
	return !addr.Addr.IsLoopback() && addr.Up && !addr.Tentative
}

// keepListening returns a step that adds `listen` to node-dns.yaml, and the resulting setting. The
// step is needed if a unit that gives up port 53 answers at an address that node-dns would not use:
// a running container that got this address has no other nameserver. ok is false if no step is
// needed, if only an admin can write the file, or if an admin has already set `listen`.
func (h Host) keepListening(port []Step) (step Step, listen nodeconfig.Listen, ok bool) {
	missing, all := h.unheard(port)
	if _, isSet := h.State.Config.Sources["listen"]; isSet || len(missing) == 0 {
		return Step{}, nodeconfig.Listen{}, false
	}
	words := []string{"auto"}
	listen.Auto = true
	if all {
		words, listen = []string{"all"}, nodeconfig.Listen{All: true}
	}
	for _, addr := range missing {
		if !all || addr.IsLoopback() {
			words, listen.Addrs = append(words, addr.String()), append(listen.Addrs, netip.AddrPortFrom(addr, nameserver.Port))
		}
	}
	text, ok := withSetting(h.Files[ourConfig], "Addresses on which a nameserver answered before node-dns", "listen", words)
	if !ok {
		return Step{}, nodeconfig.Listen{}, false
	}
	return writeStep(ourConfig, text, "listen: ["+strings.Join(words, ", ")+"], the addresses that answer queries now"), listen, true
}

// unheard returns the addresses where a unit that gives up the port answers, no other program does,
// and node-dns would not. Loopback addresses count only if resolv.conf names them, because a
// container in the host's network has a copy of it. all reports that `listen: all` fits, because no
// other program uses port 53 of the other addresses.
func (h Host) unheard(port []Step) (missing []netip.Addr, all bool) {
	ours := h.listen()
	answered := func(addr netip.Addr, link string) bool {
		at := netip.AddrPortFrom(addr, nameserver.Port)
		return !slices.Contains(ours, at) && slices.ContainsFunc(h.Holders, func(holder Holder) bool {
			filtered := h.Dnsmasq.IsExcepted(link) || link != "lo" && len(h.Dnsmasq.Listen)+len(h.Dnsmasq.Interfaces) > 0
			return gives(port, holder) && holder.Covers(at) && !(holder.Addr.Addr().IsUnspecified() && filtered) && !slices.Contains(missing, addr)
		})
	}
	all = true
	for _, addr := range h.State.Net.Addrs {
		taken := slices.ContainsFunc(h.Holders, func(holder Holder) bool {
			return !gives(port, holder) && holder.Unit != daemonUnit && holder.Covers(netip.AddrPortFrom(addr.Addr, nameserver.Port))
		})
		switch {
		case !isServable(addr) || addr.Addr.IsLinkLocalUnicast():
		case !taken && answered(addr.Addr, addr.Interface):
			missing = append(missing, addr.Addr)
		case !slices.Contains(ours, netip.AddrPortFrom(addr.Addr, nameserver.Port)):
			all = false // another program uses it, or no program is meant to answer there
		}
	}
	all = all && len(missing) > 0
	for _, name := range nameservers(h.State.ResolvConf.Data) {
		if addr, err := netip.ParseAddr(name); err == nil && addr.IsLoopback() && answered(addr, "lo") {
			missing = append(missing, addr)
		}
	}
	return missing, all
}

// gives reports whether a step takes the port from a holder.
func gives(port []Step, holder Holder) bool {
	return holder.Unit != "" && slices.ContainsFunc(port, func(s Step) bool { return s.Unit == holder.Unit })
}

// retaken returns the steps updated to the addresses that node-dns now uses.
func (h Host) retaken(port []Step) []Step {
	port = slices.Clone(port)
	for i, s := range port {
		if s.Kind == TakePort {
			port[i] = takeStep(h, s.Unit)
		}
	}
	return port
}

// withSetting returns node-dns.yaml with one more key, a list, and a comment with the reason. ok is
// false if the key cannot be added or the file is not readable, or if it is a link to a file that
// is managed elsewhere.
func withSetting(was hostdns.File, why, key string, values []string) (text string, ok bool) {
	if was.Err != nil || was.Link != "" {
		return "", false
	}
	added, ok := nodeconfig.AddList(was.Data, why+": see node-dns migrate.", key, values)
	return string(added), ok
}
