package zone_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnstest"
	"github.com/node-dns/node-dns/internal/zone"
)

// peerCase is one query and what a peer, or its own test, answers to it: testdata/cluster-dns.json.
type peerCase struct {
	ID, Suite, Fixture, Profile, Kind string
	Q                                 struct{ Name, Type string }
	Expect                            struct {
		Rcode                         string
		Answer, Additional, Authority []string
		TTLIgnored                    bool `json:"ttl_ignored"`
		Nonempty                      bool
	}
}

func peerCases(t testing.TB) []peerCase {
	t.Helper()
	text, err := os.ReadFile("testdata/cluster-dns.json")
	if err != nil {
		t.Fatal(err)
	}
	var all, direct []peerCase
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Kind == "direct" {
			c.Q.Name = dns.Fqdn(c.Q.Name)
			direct = append(direct, c)
		}
	}
	return direct
}

// world is what a profile of the cases means.
type world struct {
	config    zone.Config
	endpoints bool // core/v1 Endpoints are read, not EndpointSlices
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

// answersAlone are the suites whose sources look at the answer section and nothing else.
var answersAlone = map[string]bool{"openshift-3.11-e2e": true, "kubernetes-e2e": true}

// TestPeerCases asks a server everything that the peers were asked, over UDP and TCP, and on the wire.
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
			_, deviates := deviations[c.ID]
			diff := c.diff(t, server.ask(t, c.Q.Name, dns.StringToType[c.Q.Type]))
			switch {
			case diff == "" && deviates:
				t.Error("listed as a deviation, and is none")
			case diff != "" && !deviates:
				t.Errorf("%s %s:\n%s", c.Q.Name, c.Q.Type, diff)
			case diff == "":
				passed[suite]++
			}
		})
	}
	for suite, n := range all {
		t.Logf("%s: %d of %d, and %d deviations", suite, passed[suite], n, n-passed[suite])
	}
}

// TestDeviationsAreCases holds that no row of the table is left over.
func TestDeviationsAreCases(t *testing.T) {
	cases := map[string]bool{}
	for _, c := range peerCases(t) {
		cases[c.ID] = true
	}
	for id := range deviations {
		if !cases[id] {
			t.Errorf("%s is no case", id)
		}
	}
}

func fixtureOf(t *testing.T, c peerCase) string {
	t.Helper()
	for _, suffix := range []string{".static.yaml", ".yaml"} {
		if _, err := os.Stat("testdata/" + c.Fixture + suffix); err == nil {
			return c.Fixture + suffix
		}
	}
	t.Fatalf("%s has no fixture %q", c.ID, c.Fixture)
	return ""
}

// diff compares with what the peer answers, as far as that counts: TTLs where the case says so, and never the serial
// number of a SOA record, nor its other numbers where the peer's own test does not look at them.
func (c *peerCase) diff(t *testing.T, got *dns.Msg) string {
	t.Helper()
	if c.Expect.Nonempty {
		if got.Rcode != dns.StringToRcode[c.Expect.Rcode] || len(got.Answer) == 0 {
			return got.String()
		}
		return ""
	}
	got = got.Copy()
	anySOA := c.Suite == "coredns-plugin-kubernetes"
	for _, section := range [][]dns.RR{got.Answer, got.Ns} {
		for _, rr := range section {
			normalize(rr, anySOA)
		}
	}
	if answersAlone[c.Suite] {
		got.Ns, got.Extra = nil, nil
	}
	want := []string{";; " + c.Expect.Rcode}
	for _, section := range []struct {
		name string
		rrs  []string
	}{{"ANSWER", c.Expect.Answer}, {"AUTHORITY", c.Expect.Authority}, {"ADDITIONAL", c.Expect.Additional}} {
		want = append(want, ";; "+section.name)
		for _, text := range section.rrs {
			want = append(want, c.wanted(t, text, anySOA))
		}
	}
	return dnstest.Diff(strings.Join(want, "\n"), got)
}

func (c *peerCase) wanted(t *testing.T, text string, anySOA bool) string {
	t.Helper()
	rr, err := dns.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	normalize(rr, anySOA)
	fields := strings.Fields(rr.String())
	if ttl := rr.Header().Ttl; c.Expect.TTLIgnored || ttl == 300 && anySOA || ttl == 303 {
		fields[1] = "*"
	}
	return strings.Join(fields, " ")
}

func normalize(rr dns.RR, anySOA bool) {
	if soa, ok := rr.(*dns.SOA); ok {
		soa.Serial = 0
		if anySOA {
			soa.Refresh, soa.Retry, soa.Expire, soa.Minttl = 0, 0, 0, 0
		}
	}
}

// served is a Resolver behind a real server.
type served struct {
	resolver *zone.Resolver
	addr     netip.AddrPort
}

func serveWorld(t *testing.T, w world, fixture string) served {
	t.Helper()
	config := w.config
	config.Domains = names(t, "cluster.local")
	config.Nameservers = []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:10:96::a")}
	config.Next = internet(t)
	config.Rotate = func(int) int { return 0 }
	resolver := zone.NewResolver(config)
	resolver.Set(load(t, fixture, w.endpoints).Snapshot(time.Unix(1499347823, 0)))
	z := zone.New(zone.Authority{Apexes: resolver.Apexes(), Cluster: resolver}, config.Next)
	return served{resolver, serve(t, z)}
}

// ask asks over UDP, TCP and on the wire, which must all say the same.
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
			t.Errorf("by the server\n%s\non the wire\n%s", a, b)
		}
	}
	return udp
}

// sections is a message without its ID.
func sections(m *dns.Msg) string {
	m = m.Copy()
	m.Id = 0
	return m.String()
}

// internet answers as the resolver did that the peers forwarded to: example.test, and nothing else.
func internet(t testing.TB) dnsserver.Handler {
	t.Helper()
	text, err := os.ReadFile("testdata/example.test.zone")
	if err != nil {
		t.Fatal(err)
	}
	var soa, ns dns.RR
	records := map[string][]dns.RR{}
	parser := dns.NewZoneParser(strings.NewReader(string(text)), "", "")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		switch rr.Header().Rrtype {
		case dns.TypeSOA:
			soa = rr
		case dns.TypeNS:
			ns = rr
		}
		records[rr.Header().Name] = append(records[rr.Header().Name], rr)
	}
	if err := parser.Err(); err != nil || soa == nil || ns == nil {
		t.Fatal("reading example.test.zone:", err)
	}
	root, err := dns.NewRR(". 900 IN SOA root.invalid. nobody.invalid. 0 7200 1800 86400 900")
	if err != nil {
		t.Fatal(err)
	}
	return dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		m := new(dns.Msg)
		name := dns.CanonicalName(q.Msg.Question[0].Name)
		for range 3 {
			next := ""
			for _, rr := range records[name] {
				cname, isCNAME := rr.(*dns.CNAME)
				if isCNAME {
					next = cname.Target
				}
				if isCNAME || rr.Header().Rrtype == q.Msg.Question[0].Qtype {
					m.Answer = append(m.Answer, rr)
				}
			}
			if next == "" {
				break
			}
			name = next
		}
		switch {
		case !dns.IsSubDomain("example.test.", name):
			m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{root}
		case len(m.Answer) > 0:
			m.Ns = []dns.RR{ns}
		case records[name] == nil:
			m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{soa}
		default:
			m.Ns = []dns.RR{soa}
		}
		return m, nil
	})
}
