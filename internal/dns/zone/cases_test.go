package zone_test

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/conformance"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

func peerCases(t testing.TB) []conformance.Case {
	t.Helper()
	cases, err := conformance.Read("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// world is the configuration of a profile in the cases.
type world struct {
	config    zone.Config
	endpoints bool // use core/v1 Endpoints instead of EndpointSlices
}

var coreDNS = zone.Config{TTL: -1, NegativeTTL: -1, PodNames: zone.PodsDisabled}

func with(config zone.Config, change func(*zone.Config)) zone.Config {
	change(&config)
	return config
}

var worlds = map[string]world{
	"openshift":        {zone.Config{Profile: zone.OpenShift, TTL: -1, NegativeTTL: -1}, true},
	"coredns-insecure": {with(coreDNS, func(c *zone.Config) { c.PodNames = zone.PodsInsecure }), false},
	"all":              {with(coreDNS, func(c *zone.Config) { c.TTL = 30 * time.Second }), false},
	"unit-all":         {coreDNS, false},
	"unit-apex":        {coreDNS, false},
	"unit-testns":      {with(coreDNS, func(c *zone.Config) { c.Namespaces = []string{"testns"} }), false},
	"unit-ignore-empty": {with(coreDNS, func(c *zone.Config) {
		c.Namespaces, c.IgnoreEmptyService = []string{"testns"}, true
	}), false},
	"unit-pods-disabled": {coreDNS, false},
	"unit-pods-insecure": {with(coreDNS, func(c *zone.Config) { c.PodNames = zone.PodsInsecure }), false},
	"unit-pods-verified": {with(coreDNS, func(c *zone.Config) { c.PodNames = zone.PodsVerified }), false},
	"unit-reverse": {with(coreDNS, func(c *zone.Config) {
		c.PodCIDRs = []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("1234:abcd::/80"), netip.MustParsePrefix("fd00:77:30::/96"),
		}
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}
	}), false},
	"unit-zonal": {with(coreDNS, func(c *zone.Config) { c.Zonal = true }), false},
}

// TestPeerCases sends a server all questions of the peers, over UDP, over TCP and in wire format.
func TestPeerCases(t *testing.T) {
	servers := map[string]served{}
	passed, all := map[string]int{}, map[string]int{}
	for _, c := range peerCases(t) {
		key := c.Profile + " " + c.Fixture
		server, ok := servers[key]
		if !ok {
			server = serveWorld(t, worlds[c.Profile], fixtureOf(t, c))
			servers[key] = server
		}
		t.Run(c.ID, func(t *testing.T) {
			suite := c.Suite + ", " + c.Profile
			all[suite]++
			got := server.ask(t, c.Q.Name, dns.StringToType[c.Q.Type])
			if fault := c.Judge(got); fault != "" {
				t.Errorf("%s %s: %s", c.Q.Name, c.Q.Type, fault)
			} else if _, deviates := c.Deviation(); !deviates {
				passed[suite]++
			}
		})
	}
	for suite, n := range all {
		t.Logf("%s: %d of %d, and %d deviations", suite, passed[suite], n, n-passed[suite])
	}
}

func fixtureOf(t *testing.T, c conformance.Case) string {
	t.Helper()
	for _, suffix := range []string{".static.yaml", ".yaml"} {
		if _, err := os.Stat("testdata/" + c.Fixture + suffix); err == nil {
			return c.Fixture + suffix
		}
	}
	t.Fatalf("%s has no fixture %q", c.ID, c.Fixture)
	return ""
}

type served struct {
	resolver *zone.Resolver
	addr     netip.AddrPort
}

func serveWorld(t *testing.T, w world, fixture string) served {
	t.Helper()
	config := w.config
	config.Domains = names("cluster.local")
	config.Nameservers = []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:10:96::a")}
	config.Next = internet(t)
	config.Rotate = func(int) int { return 0 }
	resolver := zone.NewResolver(config)
	resolver.Set(load(t, fixture, w.endpoints).Snapshot(time.Unix(1499347823, 0)))
	z := within(resolver, config.Next)
	return served{resolver, serve(t, z)}
}

// ask sends a question over UDP, over TCP and in wire format, and requires the same answer each
// time.
func (s served) ask(t *testing.T, name string, qtype uint16) *dns.Msg {
	t.Helper()
	udp := dnstest.Exchange(t, s.addr, name, qtype, dnstest.EDNS(1232))
	tcp := dnstest.ExchangeTCP(t, s.addr, name, qtype, dnstest.EDNS(1232))
	if a, b := sections(udp), sections(tcp); a != b {
		t.Errorf("over UDP\n%s\nover TCP\n%s", a, b)
	}
	query := new(dns.Msg).SetQuestion(name, qtype)
	query.SetEdns0(1232, false)
	packed, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if wire, ok := s.resolver.AppendResponse(nil, packed, 1232); ok {
		m := new(dns.Msg)
		if err := m.Unpack(wire); err != nil {
			t.Fatal(err)
		}
		if a, b := sections(udp), sections(m); a != b || m.Id != query.Id {
			t.Errorf("from the server\n%s\nin wire format\n%s", a, b)
		}
	}
	return udp
}

// sections formats a message without its ID.
func sections(m *dns.Msg) string {
	m = m.Copy()
	m.Id = 0
	return m.String()
}

// internet returns the handler that the peers forwarded to.
func internet(t testing.TB) dnsserver.Handler {
	t.Helper()
	handler, err := conformance.Internet("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return handler
}
