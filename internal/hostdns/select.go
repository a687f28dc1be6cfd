package hostdns

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/node-dns/node-dns/internal/nameserver"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

// selectUpstreams finds the original upstream nameservers: law 1 gives the order of the sources, law 2 that an empty
// one never wins, law 3 what is refused.
func selectUpstreams(s State) upstream.Selection {
	return choose(s, candidates(s)...)
}

func choose(s State, candidates ...upstream.Candidate) upstream.Selection {
	refused, refusedCopies := refuse(s), refuseCopies(s)
	return upstream.Select(candidates, func(origin upstream.Origin, server nameserver.Server) string {
		if origin == upstream.ResolvConf {
			return refusedCopies(server)
		}
		return refused(server)
	})
}

// candidates are the sources in law 1's order. An event is a hint: its variables come after NetworkManager's own word,
// because reapply and renewals carry the nameservers of before (seen with 1.42.4 and 1.52.1).
func candidates(s State) []upstream.Candidate {
	var all []upstream.Candidate
	known := lastGood(s)
	good := upstream.Candidate{Origin: upstream.LastGood, Detail: known.From, Set: known.Set}
	if s.NetworkManager != nil {
		all = append(all, fromNetworkManager(s))
	}
	if s.NetworkManagerList.Exists {
		all = append(all, fromResolvConf(upstream.NetworkManagerFile, s.NetworkManagerList.Data))
	} else if s.NetworkManagerConf.Exists {
		all = append(all, fromResolvConf(upstream.NetworkManagerFile, s.NetworkManagerConf.Data))
	}
	if eventCounts(s) {
		all = append(all, upstream.Candidate{
			Origin:  upstream.Event,
			Detail:  s.Event.Interface,
			Set:     upstream.Set{Servers: s.Event.Nameservers},
			Invalid: s.Event.Invalid,
		})
	}
	for _, c := range fromOthersFiles(s) {
		if said := choose(s, c).Set; !said.IsEmpty() && said.Equal(inResolvConf(choose(s, good).Set)) {
			// As far as a resolv.conf can, it says what last-good does: it may be the one that we restored, without the
			// routes, the ports and the servers over TLS that last-good has.
			c = good
		}
		all = append(all, c)
	}
	return append(all, good)
}

// fromOthersFiles are the resolv.confs that are not ours. Where /etc/resolv.conf is systemd-resolved's stub, or was before
// ours displaced it, the uplinks come first: the stub follows them, and so must what stands in for it. Where ours displaced another link, what
// that leads to comes first: who made the link (Debian's resolvconf, netconfig) writes there, and does not look at the link.
func fromOthersFiles(s State) []upstream.Candidate {
	var all []upstream.Candidate
	if stub := resolvedStub(s.ResolvConf); stub || resolvedStub(s.Original) {
		c := fromResolved(s)
		if stub && !s.DropIn.Exists {
			return append(all, c)
		}
		all = append(all, withoutEcho(s, c))
		if stub {
			return all
		}
	}
	if s.Original.Link != "" && !resolvedStub(s.Original) {
		all = append(all, withoutEcho(s, fromResolvConf(upstream.ResolvConf, s.Original.Data)))
	}
	if s.ResolvConf.Exists && !s.isOurs() {
		all = append(all, fromResolvConf(upstream.ResolvConf, s.ResolvConf.Data))
	}
	return all
}

// fromResolved are the nameservers of systemd-resolved's links, after those that its files name beside them: they are no
// uplinks while our drop-in stands.
func fromResolved(s State) upstream.Candidate {
	c := fromResolvConf(upstream.Resolved, s.ResolvedUplinks.Data)
	if s.ResolvedSays != nil {
		for _, server := range slices.Backward(s.ResolvedSays.Servers) {
			if !slices.Contains(c.Set.Servers, server) {
				c.Set.Servers = slices.Insert(c.Set.Servers, 0, server)
			}
		}
	}
	return c
}

// withoutEcho leaves this node out without a word: systemd-resolved takes the nameservers of a resolv.conf that it did
// not write for its own (systemd-resolved(8), "/etc/resolv.conf"), and so the one in ours, or the one that was.
func withoutEcho(s State, c upstream.Candidate) upstream.Candidate {
	refused := refuseCopies(s)
	c.Set.Servers = slices.DeleteFunc(c.Set.Servers, func(server nameserver.Server) bool { return refused(server) != "" })
	return c
}

// eventCounts reports whether the event's nameservers may be the default upstreams: only those of the interface that
// carries the default route. A management LAN's nameservers know nothing of the rest of the world.
func eventCounts(s State) bool {
	iface := s.Event.IPInterface
	if iface == "" {
		iface = s.Event.Interface
	}
	return iface != "" && slices.Contains(defaultInterfaces(s), iface)
}

func defaultInterfaces(s State) []string {
	var names []string
	if d := s.Net.Default4; d != nil {
		names = append(names, d.Interface)
	}
	if d := s.Net.Default6; d != nil && !slices.Contains(names, d.Interface) {
		names = append(names, d.Interface)
	}
	return names
}

func fromNetworkManager(s State) upstream.Candidate {
	servers, routes := s.NetworkManager.Upstreams(defaultInterfaces(s))
	c := upstream.Candidate{Origin: upstream.NetworkManager, Set: upstream.Set{Servers: servers}}
	for _, r := range routes {
		c.Set.Routes = append(c.Set.Routes, upstream.Route{Domain: r.Domain, Servers: r.Servers})
	}
	for _, config := range s.NetworkManager.Configs {
		c.Invalid = append(c.Invalid, config.Invalid...)
		if c.Detail == "" && slices.Contains(defaultInterfaces(s), config.Interface) {
			c.Detail = connectionDetail(config)
		}
	}
	return c
}

func connectionDetail(config nm.DNSConfig) string {
	if config.Connection == "" {
		return config.Interface
	}
	return config.Interface + " (" + config.Connection + ")"
}

// maxInvalid bounds, in bytes, what is told of a word that is no nameserver.
const maxInvalid = 64

func fromResolvConf(origin upstream.Origin, text []byte) upstream.Candidate {
	file := resolvconf.Parse(text)
	c := upstream.Candidate{Origin: origin, Detail: file.Owner()}
	for _, word := range file.Invalid() {
		c.Invalid = append(c.Invalid, strconv.QuoteToASCII(word[:min(len(word), maxInvalid)]))
	}
	for _, addr := range file.Nameservers() {
		c.Set.Servers = append(c.Set.Servers, nameserver.FromAddr(addr))
	}
	return c
}

// refuse says why a server can never be an upstream of this host (law 3), or "". Every local address at port 53 is
// refused, not only those we listen on now: a list that DHCP offers may name an address the daemon binds a second
// later. A nameserver of one's own on another local address is an explicit choice: node-dns.yaml's upstreams.
func refuse(s State) func(nameserver.Server) string {
	listen := s.Placement().Listen
	return func(server nameserver.Server) string {
		addr := server.Addr.Addr().Unmap().WithZone("")
		switch {
		case isResolvedStub(addr):
			return "systemd-resolved's stub"
		case slices.Contains(listen, netip.AddrPortFrom(addr, server.Addr.Port())):
			return "this node: would loop"
		case !addr.IsLoopback() && server.Addr.Port() == 53 && s.Net.IsLocal(addr):
			return "this node: would loop"
		}
		return ""
	}
}
