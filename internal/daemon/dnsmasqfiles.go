package daemon

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/localdata"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/precedence"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

// nextDnsmasq is what next is for dnsmasq's files: the running one stays where they have faults, and a change counts when two
// looks agree on it.
func (f *follower) nextDnsmasq(running dnsmasqconf.Config, view *hostView) (config dnsmasqconf.Config, again bool) {
	before := f.seenDnsmasq
	f.seenDnsmasq = view.dnsmasq
	switch {
	case view.dnsmasqErr != nil:
		return running, false
	case reflect.DeepEqual(view.dnsmasq, running), reflect.DeepEqual(view.dnsmasq, before):
		return view.dnsmasq, false
	}
	return running, true
}

// settings are the numbers that dnsmasq's files and node-dns.yaml both have, where the latter wins, and what the cache needs.
type settings struct {
	cacheSize, forwardMax                     int
	maxTTL, minTTL, negativeTTL, clientTTL    int  // seconds; dnsmasqconf.Unset
	stale                                     int  // likewise; 0: nothing stale is given out
	staleAtOnce                               bool // before the upstreams are asked
	prefetch                                  bool
	noNegative                                bool
	stopRebind, rebindLocalhost               bool
	bogus, ignored, rebindOK, rewrites        string // their networks, to compare
	filterA, filterAAAA, filterWin2K, bogPriv bool
	udp                                       exchange.UDP
}

func newSettings(config nodeconfig.Config, files dnsmasqconf.Config) settings {
	s := settings{
		cacheSize: config.CacheSize, forwardMax: config.DNSForwardMax,
		maxTTL: files.Number("max-cache-ttl"), minTTL: files.Number("min-cache-ttl"), negativeTTL: files.Number("neg-ttl"),
		clientTTL: files.Number("max-ttl"), prefetch: config.Prefetch, noNegative: files.Has("no-negcache"),
		stopRebind: files.Has("stop-dns-rebind"), rebindLocalhost: files.Has("rebind-localhost-ok"),
		filterA: files.Has("filter-A"), filterAAAA: files.Has("filter-AAAA"),
		filterWin2K: files.Has("filterwin2k"), bogPriv: files.Has("bogus-priv"),
		rebindOK: fmt.Sprint(files.RebindOK), rewrites: fmt.Sprint(files.Rewrites), bogus: prefixWords(files.Bogus), ignored: prefixWords(files.Ignored),
	}
	s.udp.Cookies, s.udp.MixedCase = config.Cookies, config.UseCapsForID
	s.udp.Low, s.udp.High = files.Ports.Low, files.Ports.High
	if n := files.Number("edns-packet-max"); n != dnsmasqconf.Unset {
		s.udp.Size = uint16(n)
	}
	s.stale = config.ServeStale
	if n := files.Number("use-stale-cache"); n != dnsmasqconf.Unset {
		if !isSet(config, "serveStale") {
			s.stale = n
		}
		s.staleAtOnce = s.stale > 0
	}
	if n := files.Number("cache-size"); n != dnsmasqconf.Unset && !isSet(config, "cacheSize") {
		s.cacheSize = min(n, maxDnsmasqCache)
	}
	if n := files.Number("dns-forward-max"); n > 0 && !isSet(config, "dnsForwardMax") {
		s.forwardMax = n
	}
	return s
}

// isOpportunistic reports whether upstreams are asked over TLS where they speak it.
func (s *serving) isOpportunistic() bool {
	return s.config.DNSOverTLS == nodeconfig.DNSOverTLSOpportunistic
}

// maxDnsmasqCache is node-dns.yaml's bound of cacheSize.
const maxDnsmasqCache = 10_000_000

func isSet(config nodeconfig.Config, key string) bool {
	_, ok := config.Sources[key]
	return ok
}

func prefixWords(prefixes []netip.Prefix) string {
	var words []string
	for _, p := range prefixes {
		words = append(words, p.String())
	}
	return strings.Join(words, " ")
}

// addFiles adds what dnsmasq's files say but for their upstreams: local data, routes, options, and what has no effect.
func (s *serving) addFiles(in inputs) {
	s.options.FilterA = s.options.FilterA || s.settings.filterA
	s.options.FilterAAAA = s.options.FilterAAAA || s.settings.filterAAAA
	s.options.Localise = s.options.Localise || in.dnsmasq.Has("localise-queries")
	s.options.FilterWin2K = s.options.FilterWin2K || s.settings.filterWin2K
	if s.options.BogusPrivate = s.options.BogusPrivate || s.settings.bogPriv; s.options.BogusPrivate {
		s.private = privateZones()
	}
	s.notes = append(s.notes, in.dnsmasq.Costs()...)
	var aside []string
	for _, a := range in.dnsmasq.Aside {
		aside = append(aside, fmt.Sprintf("%s (%s)", a.Option, a.Place))
	}
	if len(aside) > 0 {
		s.note("dnsmasq's options that are known, not followed: %s; node-dns check-config says why", few(aside, ", "))
	}
}

// known is the local data, with its inputs.
type known struct {
	data   *localdata.Data
	said   dnsmasqconf.Config   // by dnsmasq's files, and by the hosts of own
	own    *clusterdns.Settings // nil if fromCluster is off
	pinned []dnsname.Name       // domains with a route of a source stronger than own
}

// addLocal adds the local data. It comes after settle, because hosts of the cluster's DNS give way to routes of stronger sources.
func (s *serving) addLocal(in inputs) {
	now := known{own: s.own}
	if s.own != nil {
		now.pinned = s.pinned(precedence.FromCluster)
	}
	if before := in.known; before != nil && before.own == now.own && slices.Equal(before.pinned, now.pinned) {
		s.known = before
	} else {
		now.said = in.dnsmasq
		if s.own != nil {
			now.said.Hosts = slices.Concat(in.dnsmasq.Hosts, ownHosts(s.own.Hosts, localdata.New(in.dnsmasq, s.hostname), now.pinned))
		}
		now.data = localdata.New(now.said, s.hostname)
		s.known = &now
	}
	s.local = s.known.data
	for _, apex := range s.apexes {
		if s.local.Knows(apex) {
			s.note("dnsmasq's files, or hosts of the cluster's DNS, have names in the cluster's zone %s: these are answered as they say", apex)
		}
	}
}

// pinned are the domains with a route of a stronger source. The root does not count.
func (s *serving) pinned(than precedence.Source) (domains []dnsname.Name) {
	for _, r := range s.won {
		if r.Source < than && !r.Domain.IsRoot() && !r.Plain {
			domains = append(domains, r.Domain)
		}
	}
	return domains
}

// fileClaims are what server=, local=, rev-server=, address=/domain/ and resolv-file say. The cluster's names are not theirs
// while somebody else is known to answer for these.
func (s *serving) fileClaims(in inputs) []precedence.Claim {
	hasCluster := s.api != (api{}) || len(s.clusterDNS) > 0
	var rules, plain, barred []dnsmasqconf.Rule
	for _, server := range in.dnsmasq.Servers {
		switch {
		case server.Plain:
			plain = append(plain, server.Rule)
		case hasCluster && s.isOfCluster(server.Domain):
			barred = append(barred, server.Rule)
			s.note("%s (%s) lies in the cluster's zone, which others answer for: it is left out", server.Rule, server.Place)
		default:
			rules = append(rules, server.Rule)
		}
	}
	for _, server := range in.resolvFiles {
		rules = append(rules, dnsmasqconf.Rule{Domain: dnsname.Root(), Server: server})
	}
	var claims []precedence.Claim
	add := func(rules []dnsmasqconf.Rule, change func(*precedence.Claim)) {
		for _, route := range dnsmasqconf.Routes(rules) {
			c := ruleClaim(precedence.Dnsmasq, "", route)
			change(&c)
			// Of all names the files say only who is asked; "//#" says nothing.
			if !c.Domain.IsRoot() || c.Kind == precedence.Ask || c.Plain && c.Kind == precedence.Local {
				c.Detail = filePlace(in.dnsmasq, c.Domain, c.Plain)
				claims = append(claims, c)
			}
		}
	}
	add(rules, func(*precedence.Claim) {})
	add(plain, func(c *precedence.Claim) { c.Plain = true })
	add(barred, func(c *precedence.Claim) { c.Barred = "it lies in the cluster's zone, which others answer for" })
	return claims
}

// filePlace is where a file first speaks of a domain.
func filePlace(files dnsmasqconf.Config, domain dnsname.Name, plain bool) string {
	for _, server := range files.Servers {
		if server.Domain == domain && server.Plain == plain {
			return server.Place.String()
		}
	}
	return "resolv-file " + files.Sources["resolv-file"].String()
}

// addFileListeners adds listen-address and the addresses of interface, less those of except-interface: dnsmasq would have
// listened there. What /etc/resolv.conf is to name stays, whatever they say. Loopback is left out: RHEL's dnsmasq.conf has
// interface=lo for everybody, and OpenShift's own nameserver was there. With port= all of them are on another port.
func (s *serving) addFileListeners(in inputs) {
	files := in.dnsmasq
	port := uint16(max(files.Number("port"), 0))
	if len(files.Listen)+len(files.Interfaces) == 0 && port == 0 || len(in.flags.Listen) > 0 {
		return
	}
	if isSet(in.config, "listen") {
		s.note("listen in node-dns.yaml wins over port, listen-address and interface of dnsmasq's files")
		return
	}
	if port = cmp.Or(port, nameserver.Port); port != nameserver.Port {
		s.note("port=%d (%s) has node-dns listen there: /etc/resolv.conf, which cannot name a port, names the site's nameservers", port, files.Sources["port"])
		s.listen = onPort(s.listen, port)
	}
	for _, bound := range files.Bound(in.net.Addrs) {
		s.addListener(netip.AddrPortFrom(bound.Addr, port), bound.Source)
	}
}

// onPort are the listeners on another port, but for those on loopback: they stand for OpenShift's own nameserver.
func onPort(listen []netip.AddrPort, port uint16) []netip.AddrPort {
	moved := slices.Clone(listen)
	for i, at := range moved {
		if !at.Addr().IsLoopback() {
			moved[i] = netip.AddrPortFrom(at.Addr(), port)
		}
	}
	return moved
}

func (s *serving) addListener(at netip.AddrPort, source string) {
	switch {
	case slices.Contains(s.listen, at):
	case at.Addr().IsLoopback():
		s.note("%s (%s) is not listened on: listen in node-dns.yaml says so where that is meant", at.Addr(), source)
	default:
		s.listen = append(s.listen, at)
	}
}

// resolvFiles are the nameservers of resolv-file. no-resolv has none of them; one that we wrote says what we know already.
func (d *Daemon) resolvFiles(files dnsmasqconf.Config) (servers []nameserver.Server) {
	if files.Has("no-resolv") {
		return nil
	}
	for _, name := range files.ResolvFile {
		file := hostdns.ReadFile(d.paths.host.Root, name)
		if name == d.paths.host.ResolvConf || hostdns.IsOurs(file.Data) {
			continue
		}
		for _, addr := range resolvconf.Parse(file.Data).Nameservers() {
			if !addr.IsUnspecified() {
				servers = append(servers, nameserver.FromAddr(addr))
			}
		}
	}
	return servers
}

// nameOf is the host's name; the zero Name: it has none that could stand in DNS.
func nameOf(hostname string) dnsname.Name {
	name, err := dnsname.Parse(hostname)
	if err != nil || name.IsRoot() {
		return dnsname.Name{}
	}
	return name
}
