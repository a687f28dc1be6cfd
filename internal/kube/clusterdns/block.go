package clusterdns

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// maxPairs bounds the combinations of a zone and a forward or hosts plugin in a Corefile.
const maxPairs = 4_000

// neutral are the plugins that do not change the answers that a node gets from node-dns.
var neutral = plugins(`any autopath bind bufsize cache cancel chaos debug dnstap errors header health https https3 k8s_external kubernetai
	kubernetes lameduck loadbalance local log loop metadata metrics minimal multicluster multisocket nsid on pprof prometheus proxyproto
	quic ready reload root timeouts tls trace tsig ttl grpc_server`)

// changing are the plugins that change answers in ways that node-dns does not support.
var changing = plugins(`acl alternate auto azure clouddns dns64 dnssec erratic etcd fanout federation file geoip grpc nomad rewrite
	route53 secondary sign template transfer view whoami`)

func plugins(names string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		set[name] = true
	}
	return set
}

// server is a server block with readable zones.
type server struct {
	block
	zones    []zoneKey
	answered map[dnsname.Name]string  // zones whose names never reach forward, and the place of the plugin that answers them
	forwards map[dnsname.Name]forward // by the domain
	mayLeave bool                     // names may be left to the DNS pods
}

// zoneKey is a zone that a block serves at port 53.
type zoneKey struct {
	name dnsname.Name
	at   token
}

// corefile is the combined configuration of all server blocks of a Corefile.
type corefile struct {
	*reader
	object Object
	custom *custom
	owners map[dnsname.Name]*server // by the zone
	files  map[string][][]token     // entries of hosts files, by the Where
	pairs  int
	words  int                           // of hosts entries
	addrs  map[dnsname.Name][]netip.Addr // of the hosts entries
	// hasTooMany means that a name has more than maxAddresses, which is reported.
	hasTooMany bool
}

// fromAPI are the plugins that answer from the API, as node-dns does.
var fromAPI = plugins("kubernetai kubernetes multicluster")

func (r *reader) readCorefile(o Object, from *custom) {
	p := &parser{reader: r, object: o, custom: from, snippets: map[string][]token{}}
	p.push(token{}, frame{name: corefileKey, tokens: lexValue(r, o, corefileKey)})
	c := &corefile{reader: r, object: o, custom: from, owners: map[dnsname.Name]*server{}, files: map[string][][]token{}, addrs: map[dnsname.Name][]netip.Addr{}}
	servers := c.serve(p.blocks())
	for _, b := range servers {
		c.follow(b)
	}
	for _, b := range servers {
		if slices.ContainsFunc(b.directives, func(d directive) bool { return fromAPI[d.name.text] }) {
			continue
		}
		for _, zone := range b.zones {
			c.keep(zone.name, zone.at.where())
			c.selective[zone.name] = c.selective[zone.name] || isSelective(b.block)
		}
	}
}

// serve gives each zone to its first block. A query goes to the block with the longest zone that
// its name is in.
func (c *corefile) serve(blocks []block) []*server {
	var servers []*server
	var others []zoneKey // at other ports or protocols
	for _, parsed := range blocks {
		b := &server{block: parsed, answered: map[dnsname.Name]string{}, forwards: map[dnsname.Name]forward{}, mayLeave: c.mayLeave && !isSelective(parsed)}
		view := slices.IndexFunc(b.directives, func(d directive) bool { return d.name.text == "view" })
		for _, key := range b.keys {
			zone, port, wrong := parseZone(key)
			switch {
			case wrong != "":
				c.report(key.where(), "zone %s: %s", quote(key.text), wrong)
				if port == "" {
					c.keepUnknown(key.where())
				}
			case port != "":
				others = append(others, zoneKey{zone, key})
			case view >= 0:
				c.keep(zone, key.where())
				c.selective[zone] = true
			case c.owners[zone] == b:
			case c.owners[zone] != nil:
				c.report(key.where(), "%s also serves %s", c.owners[zone].whereOf(zone), zone.Relative())
			default:
				c.owners[zone] = b
				b.zones = append(b.zones, zoneKey{zone, key})
			}
		}
		switch {
		case view >= 0:
			c.report(b.directives[view].name.where(), `a server block with plugin "view" serves only some clients or queries`)
		case len(b.zones) > 0:
			servers = append(servers, b)
		}
	}
	for _, other := range others {
		if c.owners[other.name] == nil {
			c.report(other.at.where(), "zone %s: node-dns follows only plain DNS at port 53", quote(other.at.text))
		}
	}
	return servers
}

// whereOf returns the place of a zone in the Corefile.
func (b *server) whereOf(zone dnsname.Name) string {
	for _, z := range b.zones {
		if z.name == zone {
			return z.at.where()
		}
	}
	return ""
}

// owner returns the block that serves a name, and the zone.
func (c *corefile) owner(name dnsname.Name) (*server, dnsname.Name) {
	for zone := name; !zone.IsZero(); zone = zone.Parent() {
		if b := c.owners[zone]; b != nil {
			return b, zone
		}
	}
	return nil, dnsname.Name{}
}

// isServed reports whether b serves the name, and reports at where if another block does.
func (c *corefile) isServed(b *server, name dnsname.Name, where string) bool {
	other, zone := c.owner(name)
	if other != b && other != nil {
		c.report(where, "%s serves %s", other.whereOf(zone), name.Relative())
	}
	return other == b
}

// follow follows the plugins of a block. CoreDNS asks forward last, wherever the Corefile has it.
func (c *corefile) follow(b *server) {
	if c.needsPods(b) {
		for _, zone := range b.zones {
			c.leaveToPods(zone.name, zone.at.where())
		}
		return
	}
	hasHosts := false
	for _, d := range b.directives {
		switch {
		case d.name.text == "hosts" && hasHosts:
			c.report(d.name.where(), `plugin "hosts" occurs twice in a server block; the first one is used`)
		case d.name.text == "hosts":
			hasHosts = true
			c.readHosts(b, d)
		}
	}
	for _, d := range b.directives {
		switch name := d.name.text; {
		case isForward(d), name == "hosts", c.leavePlugin(b, d), neutral[name]:
		case changing[name]:
			c.report(d.name.where(), "node-dns has no equivalent of plugin %q", name)
		default:
			c.report(d.name.where(), "unknown plugin %s", quote(name))
		}
	}
	for _, d := range b.directives {
		if isForward(d) {
			c.readForward(b, d)
		}
	}
}

// spend counts a combination of zone and plugin, and reports whether the count is within maxPairs.
func (c *corefile) spend(where string) bool {
	if c.pairs++; c.pairs == maxPairs+1 {
		c.report(where, "the Corefile has more than %d combinations of zones and plugins; the rest is not followed", maxPairs)
		c.keepUnknown(where)
	}
	return c.pairs <= maxPairs
}

// within returns the narrower of domain and each zone of b, if the two have names in common.
func (c *corefile) within(b *server, domain dnsname.Name, where string) (common []dnsname.Name) {
	for _, zone := range b.zones {
		switch {
		case !c.spend(where):
			return common
		case domain.Within(zone.name) && !slices.Contains(common, domain):
			common = append(common, domain)
		case zone.name.Within(domain) && !slices.Contains(common, zone.name):
			common = append(common, zone.name)
		}
	}
	return common
}

// parseZone parses a zone in CoreDNS syntax: NAME or CIDR, with an optional port and scheme. port
// is "" for plain DNS at port 53. wrong is the reason if the zone is invalid.
func parseZone(t token) (zone dnsname.Name, port, wrong string) {
	if t.hasEnv() {
		return dnsname.Name{}, "", "the environment of CoreDNS is unknown"
	}
	scheme, text, hasScheme := strings.Cut(t.text, "://")
	if !hasScheme {
		scheme, text = "dns", t.text
	}
	switch scheme {
	case "dns":
	case "tls", "https", "https3", "grpc", "quic":
		port = scheme
	default:
		return dnsname.Name{}, "", "unknown scheme"
	}
	if at := strings.LastIndexByte(text, ':'); at >= 0 && !strings.Contains(text[at:], "/") {
		number, err := strconv.ParseUint(text[at+1:], 10, 16)
		if err != nil || number == 0 {
			return dnsname.Name{}, "", "expected a port from 1 to 65535"
		}
		if number != 53 && port == "" {
			port = text[at+1:]
		}
		text = text[:at]
	}
	zone, wrong = parseDomain(text)
	return zone, port, wrong
}

// parseDomain reads a name, or the CIDR of a reverse zone. "" is the root.
func parseDomain(text string) (domain dnsname.Name, wrong string) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return dnsname.Name{}, "expected a domain name or a CIDR"
		}
		zones := dnsname.ReverseZones(prefix)
		if len(zones) != 1 {
			return dnsname.Name{}, "expected a CIDR that ends at an octet (IPv4) or at a nibble (IPv6)"
		}
		return zones[0], ""
	}
	if text == "" {
		return dnsname.Root(), ""
	}
	domain, err := dnsname.Parse(text)
	if err != nil || strings.Contains(text, "*") {
		return dnsname.Name{}, "expected a domain name"
	}
	return domain, ""
}
