package hostdns

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
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
		reason := refused(server)
		switch {
		case origin == upstream.ResolvConf:
			return cmp.Or(refusedCopies(server), s.silence(server))
		case origin != upstream.LastGood: // a local nameserver that restarts is not forgotten
			return cmp.Or(reason, s.silence(server))
		}
		return reason
	})
}

// candidates are the sources in law 1's order. An event is a hint: its variables come after NetworkManager's own word,
// because reapply and renewals carry the nameservers of before (seen with 1.42.4 and 1.52.1).
func candidates(s State) []upstream.Candidate {
	var all []upstream.Candidate
	known := lastGood(s)
	good := known.candidate()
	switch none := s.leavesFile(); {
	case s.NetworkManager != nil:
		said := fromNetworkManager(s)
		own := fromAdminsFile(s, said, known)
		if none {
			all = append(own, said)
		} else {
			all = append([]upstream.Candidate{said}, own...)
		}
	case none: // it does not run, and its own file stays where it was
		all = fromAdminsFile(s, upstream.Candidate{}, known)
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
		if isEcho(s, c, good) {
			c = good
		}
		all = append(all, c)
	}
	return append(append(all, wholeOriginal(s, known)...), good)
}

// wholeOriginal is the saved original where it names what was captured from it, and loopback addresses beside: a local nameserver
// that did not listen at the capture does now.
func wholeOriginal(s State, known Capture) []upstream.Candidate {
	original := fromResolvConf(upstream.ResolvConf, s.Original.Data)
	captured := choose(s, known.candidate()).Set.Servers
	besides := choose(s, original).Set.Servers
	for _, server := range captured {
		i := slices.Index(besides, server)
		if i < 0 {
			return nil
		}
		besides = slices.Delete(besides, i, i+1)
	}
	isRemote := func(server nameserver.Server) bool { return !server.Addr.Addr().IsLoopback() }
	if known.Origin != upstream.ResolvConf || len(captured) == 0 || len(besides) == 0 || slices.ContainsFunc(besides, isRemote) {
		return nil
	}
	original.Set.Routes = known.Set.Routes
	return []upstream.Candidate{original}
}

// isEcho reports whether a resolv.conf says what last-good does, as far as it can: it may be the one that we restored, without the
// routes, the ports and the servers over TLS that last-good has.
func isEcho(s State, c, good upstream.Candidate) bool {
	said := choose(s, c).Set
	return !said.IsEmpty() && said.Equal(inResolvConf(choose(s, good).Set))
}

// leavesFile reports whether dns=none leaves resolv.conf to the admin: by what is in force, or in the files while NetworkManager does
// not run.
func (s State) leavesFile() bool {
	if s.NetworkManager != nil {
		return s.NetworkManager.Mode == "none"
	}
	return s.NetworkManagerSays != nil && s.NetworkManagerSays.DNS.Value == "none"
}

// fromAdminsFile is the admin's own resolv.conf, before NetworkManager's files: with dns=none it is the source, and where
// NetworkManager has no nameserver, of an unmanaged interface say, its files are of the past. Where ours stands there, or one that
// names nobody, what was captured from the admin's stands for it, completed from the saved original, then that original.
func fromAdminsFile(s State, said upstream.Candidate, known Capture) []upstream.Candidate {
	none := s.leavesFile()
	if !none && len(said.Set.Servers) > 0 {
		return nil
	}
	good, captured := known.candidate(), known.Origin
	var all []upstream.Candidate
	add := func(f File) {
		if !s.isAdmins(f) {
			return
		}
		c := fromResolvConf(upstream.ResolvConf, f.Data)
		if isEcho(s, c, good) {
			c.Set = good.Set
		}
		all = append(all, c)
	}
	if !s.isOurs() {
		add(s.ResolvConf)
	}
	all = append(all, wholeOriginal(s, known)...)
	detail := strings.TrimSpace(strings.TrimPrefix(good.Detail, string(captured)))
	c := upstream.Candidate{Origin: captured, Detail: detail, Set: good.Set}
	if captured == upstream.ResolvConf && !choose(s, c).Set.IsEmpty() {
		all = append(all, c)
	}
	if captured != upstream.NetworkManagerFile { // which was taken because the original could not be
		add(s.Original)
	}
	return all
}

// isAdmins reports whether a resolv.conf is the admin's: what leads to NetworkManager's directory is not, nor, without dns=none, what it
// wrote.
func (s State) isAdmins(f File) bool {
	return f.Exists && !resolvedStub(f) && !strings.Contains(f.Link, "run/NetworkManager/") && (s.leavesFile() || !byNetworkManager(f.Data))
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
	defaults, routes := s.NetworkManager.Upstreams(defaultInterfaces(s))
	c := upstream.Candidate{
		Origin: upstream.NetworkManager, Detail: strings.Join(defaults.Sources, ", "), Set: upstream.Set{Servers: defaults.Servers},
	}
	for _, r := range routes {
		c.Set.Routes = append(c.Set.Routes, upstream.Route{
			Domain: r.Domain, Servers: r.Servers, Source: strings.TrimSpace(string(upstream.NetworkManager) + " " + strings.Join(r.Sources, ", ")),
		})
	}
	for _, config := range s.NetworkManager.Configs {
		c.Invalid = append(c.Invalid, config.Invalid...)
	}
	return c
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

// refuse says why a server can never be an upstream of this host (law 3), or "". Refused is where we listen, and where we may come
// to listen with the same configuration: DHCP may name an address that the daemon binds a second later. Another local
// address is somebody else's: a named, or a container's published port. The daemon's loop probe finds one that asks us.
func refuse(s State) func(nameserver.Server) string {
	place := s.Placement()
	listen, later := place.Listen, s.mayListen(place)
	return func(server nameserver.Server) string {
		addr := server.Addr.Addr().Unmap().WithZone("")
		switch {
		case isResolvedStub(addr):
			return "systemd-resolved's stub"
		case slices.Contains(listen, netip.AddrPortFrom(addr, server.Addr.Port())):
			return "this node: would loop"
		case server.Addr.Port() == nameserver.Port && later(addr):
			return "this node: would loop"
		}
		return ""
	}
}

// mayListen says at which local addresses the daemon may come to listen beside those of its placement: at all with listen: all, and
// while the configuration is not known; with listen: auto at those that resolv.conf names, and at all while the node has no address.
func (s State) mayListen(place nodeconfig.Placement) func(netip.Addr) bool {
	auto := s.Config.Listen.Auto || !s.Config.Listen.All && len(s.Config.Listen.Addrs) == 0
	return func(addr netip.Addr) bool {
		if addr.IsLoopback() || !s.Net.IsLocal(addr) {
			return false
		}
		return place.All || s.ConfigErr != nil || auto && (!place.Nameserver.IsValid() || slices.Contains(s.named(), addr))
	}
}

// silence says that nothing listens at a loopback address, or "".
func (s State) silence(server nameserver.Server) string {
	if server.Plain() && slices.Contains(s.Deaf, server.Addr) {
		return "nothing listens there"
	}
	return ""
}
