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

// selectUpstreams finds the original upstream nameservers. An empty source never wins over another
// one, and this node's own addresses are refused.
func selectUpstreams(s *State) upstream.Selection {
	return choose(s, candidates(s)...)
}

func choose(s *State, candidates ...upstream.Candidate) upstream.Selection {
	refused, refusedCopies := refuse(s), refuseCopies(s)
	return upstream.Select(candidates, func(origin upstream.Origin, server nameserver.Server) string {
		reason := refused(server)
		switch {
		case origin == upstream.ResolvConf:
			return cmp.Or(refusedCopies(server), s.silence(server))
		case origin != upstream.LastGood: // a local nameserver that restarts stays known
			return cmp.Or(reason, s.silence(server))
		}
		return reason
	})
}

// candidates returns the sources, most trusted first. An event is only a hint: its variables rank
// below NetworkManager's D-Bus data, because on reapply and renewals they hold the previous
// nameservers (seen with 1.42.4 and 1.52.1).
func candidates(s *State) []upstream.Candidate {
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
	case none: // it does not run and has left its file in place
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

// wholeOriginal returns the saved original if it names all servers that were captured from it, plus
// loopback addresses: a local nameserver that did not listen at the time of the capture listens
// now.
func wholeOriginal(s *State, known Capture) []upstream.Candidate {
	original := fromResolvConf(upstream.ResolvConf, s.Original.Data)
	captured := choose(s, known.candidate()).Set.Servers
	remaining := choose(s, original).Set.Servers
	for _, server := range captured {
		i := slices.Index(remaining, server)
		if i < 0 {
			return nil
		}
		remaining = slices.Delete(remaining, i, i+1)
	}
	isRemote := func(server nameserver.Server) bool { return !server.Addr.Addr().IsLoopback() }
	if known.Origin != upstream.ResolvConf || len(captured) == 0 || len(remaining) == 0 || slices.ContainsFunc(remaining, isRemote) {
		return nil
	}
	original.Set.Routes = known.Set.Routes
	return []upstream.Candidate{original}
}

// isEcho reports whether a resolv.conf names the last-good servers, as far as it can. It may be one
// that we restored, which lacks the routes, the ports and the TLS servers of the last-good set.
func isEcho(s *State, c, good upstream.Candidate) bool {
	said := choose(s, c).Set
	return !said.IsEmpty() && said.Equal(inResolvConf(choose(s, good).Set))
}

// leavesFile reports whether dns=none leaves resolv.conf to the admin: by NetworkManager's active
// setting, or by its files while it does not run.
func (s *State) leavesFile() bool {
	if s.NetworkManager != nil {
		return s.NetworkManager.Mode == "none"
	}
	return s.NetworkManagerSays != nil && s.NetworkManagerSays.DNS.Value == "none"
}

// fromAdminsFile returns the admin's own resolv.conf, which ranks above NetworkManager's files.
// With dns=none it is the source. If NetworkManager has no nameserver, for example because the
// interface is unmanaged, its files are out of date. If resolv.conf is ours or names no nameserver,
// the admin's file behind a link that ours replaced takes its place, then the servers captured from
// the admin's file, completed from the saved original, and then that original.
func fromAdminsFile(s *State, said upstream.Candidate, known Capture) []upstream.Candidate {
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
	if s.keepsOriginal() && s.leadsToAdmins(s.Original) {
		add(s.Original)
	}
	all = append(all, wholeOriginal(s, known)...)
	detail := strings.TrimSpace(strings.TrimPrefix(good.Detail, string(captured)))
	c := upstream.Candidate{Origin: captured, Detail: detail, Set: good.Set}
	if captured == upstream.ResolvConf && !choose(s, c).Set.IsEmpty() {
		all = append(all, c)
	}
	if captured != upstream.NetworkManagerFile { // NetworkManager's file was used because the original was unusable
		add(s.Original)
	}
	return all
}

// isAdmins reports whether a resolv.conf belongs to the admin. A link into NetworkManager's
// directory does not, nor, without dns=none, a file that NetworkManager wrote.
func (s *State) isAdmins(f File) bool {
	return f.Exists && !resolvedStub(f) && !strings.Contains(f.Link, "run/NetworkManager/") && (s.leavesFile() || !byNetworkManager(f.Data))
}

// fromOthersFiles returns the resolv.confs that are not ours. If /etc/resolv.conf is
// systemd-resolved's stub, or was before ours replaced it, the uplinks come first, because the stub
// follows them. If ours replaced another link, its target comes first: the program that made the
// link (Debian's resolvconf, netconfig) keeps writing there without checking the link.
func fromOthersFiles(s *State) []upstream.Candidate {
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
	if s.keepsOriginal() && s.Original.Link != "" && !resolvedStub(s.Original) {
		all = append(all, withoutEcho(s, fromResolvConf(upstream.ResolvConf, s.Original.Data)))
	}
	if s.ResolvConf.Exists && !s.isOurs() {
		all = append(all, fromResolvConf(upstream.ResolvConf, s.ResolvConf.Data))
	}
	return all
}

// fromResolved returns the nameservers of systemd-resolved's links, after those of its
// configuration files. The latter are not among the uplinks while our drop-in is in place.
func fromResolved(s *State) upstream.Candidate {
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

// withoutEcho drops this node silently: systemd-resolved takes over the nameservers of a
// resolv.conf that it did not write (systemd-resolved(8), "/etc/resolv.conf"), so the one in ours,
// now or earlier.
func withoutEcho(s *State, c upstream.Candidate) upstream.Candidate {
	refused := refuseCopies(s)
	c.Set.Servers = slices.DeleteFunc(c.Set.Servers, func(server nameserver.Server) bool { return refused(server) != "" })
	return c
}

// eventCounts reports whether the event's nameservers may become the default upstreams. They must
// belong to the interface of the default route: a management LAN's nameservers cannot resolve the
// rest of the internet.
func eventCounts(s *State) bool {
	iface := cmp.Or(s.Event.IPInterface, s.Event.Interface)
	return iface != "" && slices.Contains(defaultInterfaces(s), iface)
}

func defaultInterfaces(s *State) []string {
	var names []string
	if d := s.Net.Default4; d != nil {
		names = append(names, d.Interface)
	}
	if d := s.Net.Default6; d != nil && !slices.Contains(names, d.Interface) {
		names = append(names, d.Interface)
	}
	return names
}

func fromNetworkManager(s *State) upstream.Candidate {
	defaults, routes := s.NetworkManager.Upstreams(defaultInterfaces(s))
	c := upstream.Candidate{
		Origin: upstream.NetworkManager, Detail: strings.Join(defaults.Sources, ", "), Set: upstream.Set{Servers: defaults.Servers},
	}
	for _, r := range routes {
		c.Set.Routes = append(c.Set.Routes, upstream.Route{
			Domain: r.Domain, Servers: r.Servers, Source: upstream.NetworkManager.With(strings.Join(r.Sources, ", ")),
		})
	}
	for _, config := range s.NetworkManager.Configs {
		c.Invalid = append(c.Invalid, config.Invalid...)
	}
	return c
}

// maxInvalid bounds, in bytes, how much of an invalid nameserver is shown.
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

// refuse returns the reason why a server can never be an upstream of this host, or "". It refuses
// addresses where node-dns listens, or may listen later with the same configuration: DHCP may name
// an address that the daemon binds a second later. Another local address belongs to another
// program, such as named or a container's published port. The daemon's loop probe detects such a
// server if it queries us.
func refuse(s *State) func(nameserver.Server) string {
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

// mayListen reports at which local addresses, beyond its placement, the daemon may listen later.
// With listen: all, and while the configuration is unknown, that is every one. With listen: auto it
// is those that resolv.conf names, and every one while the node has no address.
func (s *State) mayListen(place nodeconfig.Placement) func(netip.Addr) bool {
	auto := s.Config.Listen.Auto || !s.Config.Listen.All && len(s.Config.Listen.Addrs) == 0
	return func(addr netip.Addr) bool {
		if addr.IsLoopback() || !s.Net.IsLocal(addr) {
			return false
		}
		return place.All || s.ConfigErr != nil || auto && (!place.Nameserver.IsValid() || slices.Contains(s.named(), addr))
	}
}

// silence returns a reason if nothing listens at a loopback address, else "".
func (s *State) silence(server nameserver.Server) string {
	if server.Plain() && slices.Contains(s.Deaf, server.Addr) {
		return "nothing listens there"
	}
	return ""
}
