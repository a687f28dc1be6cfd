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

// ourConfig is the admin's file. A migration only ever adds a key to it.
const ourConfig = "/etc/node-dns/node-dns.yaml"

// listen are the addresses at port 53 that node-dns is to have.
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
		if place.All && isServable(addr) {
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

// isServable reports whether `listen: all` has node-dns listen at an address.
func isServable(addr netstate.Addr) bool {
	return !addr.Addr.IsLoopback() && addr.Up && !addr.Tentative
}

// keepListening is the step that adds `listen` to node-dns.yaml, and what it says then, where node-dns would not answer at an
// address at which a unit does that the steps end: a container that was given it has no other nameserver for as long as it runs.
// ok is false where there is none, and where only an admin can write that file. What an admin has set stays.
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
	text, ok := withSetting(h.Files[ourConfig], "Where a nameserver answered before node-dns", "listen", words)
	if !ok {
		return Step{}, nodeconfig.Listen{}, false
	}
	return writeStep(ourConfig, text, "listen: ["+strings.Join(words, ", ")+"], where queries are answered today"), listen, true
}

// unheard are the addresses at which one of the units that give up the port answers, nobody else, and node-dns would not. Of
// loopback it is those that resolv.conf names: a container in the host's network has a copy of it. all: `listen: all` is
// right for the others, as nobody else has port 53 of an address of this host.
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
			all = false // it is somebody else's, or nobody is meant to answer there
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

// gives reports whether a step takes a holder's port from it.
func gives(port []Step, holder Holder) bool {
	return holder.Unit != "" && slices.ContainsFunc(port, func(s Step) bool { return s.Unit == holder.Unit })
}

// retaken are the steps, with the addresses that node-dns is to have now.
func (h Host) retaken(port []Step) []Step {
	port = slices.Clone(port)
	for i, s := range port {
		if s.Kind == TakePort {
			port[i] = takeStep(h, s.Unit)
		}
	}
	return port
}

// withSetting is node-dns.yaml with a key more, a list, and why it is there. ok is false where that is not to be had, where the file
// cannot be read, and where it is a link to a file that is kept elsewhere.
func withSetting(was hostdns.File, why, key string, values []string) (text string, ok bool) {
	if was.Err != nil || was.Link != "" {
		return "", false
	}
	added, ok := nodeconfig.AddList(was.Data, why+": see node-dns migrate.", key, values)
	return string(added), ok
}
