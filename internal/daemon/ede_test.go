package daemon

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

// TestExtendedErrors: each condition that prevents an answer or changes it has the Extended DNS
// Error code that the man page documents, and no other.
func TestExtendedErrors(t *testing.T) {
	t.Parallel()
	const records = `
		example. 1 IN SOA ns.example. hostmaster.example. 1 2 3 4 1
		www.example. 300 IN A 192.0.2.80
		bogus.example. 300 IN A 192.0.2.66
		brief.example. 1 IN A 192.0.2.81`
	type row struct {
		name   string
		config string // node-dns.yaml; without SITE in it there are no upstreams
		files  string // dnsmasq configuration
		ask    []string
		qtype  uint16 // 0 means A
		faults dnstest.Faults
		closed bool // close the upstream before the last question
		code   uint16
		says   string
		first  uint16 // additional code of the first cause; 0 if none
		again  int    // number of retries, because on a busy machine the first question may have ended
	}
	const site = "upstreams: [\"SITE\"]\n"
	codes := map[string]bool{}
	for _, test := range []row{
		{name: "the cluster has not been read", config: site, ask: []string{"web.shop.svc.cluster.local."}, code: dns.ExtendedErrorCodeNotReady, says: "no cluster DNS server is known for cluster.local."},
		{name: "no upstream is known", ask: []string{"www.example."}, code: dns.ExtendedErrorCodeNoReachableAuthority, says: "no upstream nameserver is known"},
		{name: "the upstreams are silent", config: site, ask: []string{"www.example."}, faults: dnstest.Faults{Drop: true}, code: dns.ExtendedErrorCodeNoReachableAuthority, says: "no response from SITE (timed out)"},
		{name: "the upstreams are out of reach", config: site, closed: true, ask: []string{"www.example."}, code: dns.ExtendedErrorCodeNetworkError, says: "no response from SITE (connection refused)"},
		{name: "it failed recently", config: site, closed: true, ask: []string{"www.example.", "www.example."}, code: dns.ExtendedErrorCodeCachedError, first: dns.ExtendedErrorCodeNetworkError},
		{name: "a stale answer", config: site, closed: true, ask: []string{"brief.example.", "sleep", "brief.example."}, code: dns.ExtendedErrorCodeStaleAnswer},
		{name: "a stale NXDOMAIN", config: site, closed: true, ask: []string{"gone.example.", "sleep", "gone.example."}, code: dns.ExtendedErrorCodeStaleNXDOMAINAnswer},
		{name: "bogus-nxdomain", config: site, files: "bogus-nxdomain=192.0.2.66\n", ask: []string{"bogus.example."}, code: dns.ExtendedErrorCodeBlocked},
		{name: "ignore-address", config: site, files: "ignore-address=192.0.2.66\n", ask: []string{"bogus.example."}, code: dns.ExtendedErrorCodeNoReachableAuthority, says: "no response from SITE (the response has an ignored address (ignore-address))"}, // which doctor reads
		{name: "filter-A", config: site, files: "filter-A\n", ask: []string{"www.example."}, code: dns.ExtendedErrorCodeFiltered},
		{name: "a zone transfer", config: site, ask: []string{"example."}, qtype: dns.TypeAXFR, code: dns.ExtendedErrorCodeNotSupported},
		{name: "a type that there is not", config: site, ask: []string{"example."}, qtype: dns.TypeNXNAME, code: dns.ExtendedErrorCodeInvalidQueryType},
		{name: "dnsForwardMax", config: site + "dnsForwardMax: 1\n", ask: []string{"later NUMBER.www.example.", "NUMBER.more.example."}, again: 20, faults: dnstest.Faults{Drop: true}, code: dns.ExtendedErrorCodeOther, says: "already 1 queries in flight"},
	} {
		codes[fmt.Sprint(test.code)] = true
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			upstream := dnstest.NewServer(t, records)
			upstream.SetFaults(test.faults)
			r := start(t, map[string]string{
				"/etc/node-dns/node-dns.yaml": strings.ReplaceAll(test.config, "SITE", upstream.Addr().String()), "/etc/dnsmasq.d/site.conf": test.files,
			})
			if test.qtype == 0 {
				test.qtype = dns.TypeA
			}
			want := strings.ReplaceAll(test.says, "SITE", upstream.Addr().String())
			var m *dns.Msg
			for try := 0; ; try++ {
				for i, name := range test.ask {
					name = strings.ReplaceAll(name, "NUMBER", strconv.Itoa(try)) // a failure is cached
					first, wait := len(test.ask) == 1 || test.name == "it failed recently", name == "sleep"
					if test.closed && (wait || i == 0 && first) {
						upstream.Down()
					}
					later, isLater := strings.CutPrefix(name, "later ")
					switch {
					case wait:
						time.Sleep(1100 * time.Millisecond) // longer than the TTL
					case isLater:
						go askQuietly(r.address(), later)
						r.await("the upstream is queried", func() bool { return r.daemon.resolver.Forward().Stats().InFlight > 0 })
					default:
						m = dnstest.Exchange(t, r.address(), name, test.qtype, dnstest.EDNS(1232))
					}
				}
				if _, says := explanationOf(m); says == want || try >= test.again {
					break
				}
			}
			got, says := explanationOf(m)
			if got != int(test.code) || want != "" && says != want {
				t.Errorf("%s: EDE %d %q, expected %d %q", dns.RcodeToString[m.Rcode], got, says, test.code, want)
			}
			m.IsEdns0().Option = m.IsEdns0().Option[1:]
			if cause, says := explanationOf(m); cause != int(test.first) && (cause != -1 || test.first != 0) {
				t.Errorf("beside it EDE %d %q, expected %d", cause, says, test.first)
			}
		})
	}
	t.Run("class CHAOS, from elsewhere", func(t *testing.T) {
		r := start(t, map[string]string{})
		q := clientQuery("version.bind.", "203.0.113.7")
		q.Msg.Question[0] = dns.Question{Name: "version.bind.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}
		m, err := r.daemon.resolver.ServeDNS(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := explanationOf(m); got != int(dns.ExtendedErrorCodeProhibited) || m.Rcode != dns.RcodeRefused {
			t.Errorf("%s: EDE %d", dns.RcodeToString[m.Rcode], got)
		}
	})
	codes[fmt.Sprint(dns.ExtendedErrorCodeProhibited)] = true
	want, page := slices.Sorted(maps.Keys(codes)), manpage.Read(t, "../../man/node-dns.8").Names("EXTENDED ERRORS", "", "")
	slices.Sort(page)
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("codes (-these tests +page):\n%s", diff)
	}
}

// askQuietly sends a query and ignores the result.
func askQuietly(at netip.AddrPort, name string) {
	client := dns.Client{Timeout: 10 * time.Second}
	_, _, _ = client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), at.String())
}

// explanationOf returns the first Extended DNS Error, or code -1 if there is none.
func explanationOf(m *dns.Msg) (code int, text string) {
	if opt := m.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				return int(ede.InfoCode), ede.ExtraText
			}
		}
	}
	return -1, ""
}

// TestChaosNames: the values of CHAOS class names, for clients on this host.
func TestChaosNames(t *testing.T) {
	t.Parallel()
	upstream := dnstest.NewServer(t, siteRecords)
	r := start(t, map[string]string{"/etc/node-dns/node-dns.yaml": fmt.Sprintf("cacheSize: 77\nupstreams: [\"%[1]s\"]\nroutes: [{domain: corp.example, servers: [\"%[1]s\"]}]\n", upstream.Addr())}, func(c *Config) { c.Version = "1.2" })
	client := dns.Client{Timeout: 30 * time.Second} // a repeated query would be another miss
	for range 3 {
		if _, _, err := client.Exchange(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), r.address().String()); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(name string) (texts []string) {
		query := new(dns.Msg).SetQuestion(name, dns.TypeTXT)
		query.Question[0].Qclass = dns.ClassCHAOS
		m, err := dns.Exchange(query, r.address().String())
		if err != nil {
			t.Fatal(err)
		}
		for _, rr := range m.Answer {
			texts = append(texts, rr.(*dns.TXT).Txt...)
		}
		return append(texts, dns.RcodeToString[m.Rcode])
	}
	for name, want := range map[string]string{
		"version.bind.": "node-dns 1.2 NOERROR", "VERSION.server.": "node-dns 1.2 NOERROR", "authors.bind.": "the authors of node-dns NOERROR", "cachesize.bind.": "77 NOERROR",
		"insertions.bind.": "1 NOERROR", "evictions.bind.": "0 NOERROR", "misses.bind.": "1 NOERROR", "auth.bind.": "0 NOERROR", "other.bind.": "REFUSED",
	} {
		if got := strings.Join(ask(name), " "); got != want {
			t.Errorf("%s: %s, expected %s", name, got, want)
		}
	}
	if got := ask("id.server."); !slices.Equal(got, ask("hostname.bind.")) || len(got) != 2 || got[0] == "" {
		t.Errorf("id.server: %q", got)
	}
	address := strings.ReplaceAll(upstream.Addr().String(), ":", "#")
	servers := ask("servers.bind.")
	if len(servers) != 3 || !strings.HasPrefix(servers[0], "/corp.example/"+address+" ") || !strings.HasPrefix(servers[1], address+" ") {
		t.Errorf("servers.bind: %q, expected /corp.example/%s and %[2]s", servers, address)
	}
	for _, server := range servers[:len(servers)-1] {
		if len(strings.Fields(server)) != 3 {
			t.Errorf("servers.bind: %q does not have the three words that monitoring expects", server)
		}
	}
}
