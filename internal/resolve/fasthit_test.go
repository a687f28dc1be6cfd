package resolve

import (
	"bytes"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// siteAndCluster are the records of a nameserver that knows the site and has outdated records of
// the cluster.
const siteAndCluster = `
example.com. 600 IN SOA ns.example.com. hostmaster.example.com. 1 3600 600 86400 300
www.example.com. 300 IN CNAME web.example.com.
web.example.com. 200 IN A 192.0.2.80
web.example.com. 200 IN AAAA 2001:db8::80
mail.example.com. 300 IN MX 10 mx.example.com.
_sip._udp.example.com. 300 IN SRV 1 2 5060 web.example.com.
text.example.com. 300 IN TXT "` + strings255 + `" "` + strings255 + `"
printer. 300 IN A 192.0.2.90
localhost. 300 IN A 192.0.2.91
me.localhost. 300 IN A 192.0.2.92
0123.loop.node-dns. 300 IN A 192.0.2.93
80.2.0.192.in-addr.arpa. 300 IN PTR web.example.com.
7.0.31.172.in-addr.arpa. 300 IN PTR seven.example.com.
7.0.31.173.in-addr.arpa. 300 IN PTR seven.example.com.
old.shop.svc.cluster.local. 30 IN A 172.30.0.77
site.shop.svc.cluster.local. 30 IN CNAME www.example.com.
`

const strings255 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

// TestHitsOnTheWire checks which cached answers the fast path returns, and which it leaves because
// another handler affects or could affect them. Its answers equal those of the list.
func TestHitsOnTheWire(t *testing.T) {
	const pod, other = "10.128.0.41", "10.128.0.42"
	const ownDNS = "kubeconfig: none\nclusterDNS: [\"SITE\"]\nserviceCIDRs: [172.30.0.0/16]\n"
	const bothDNS = "clusterDNS: [\"SITE\"]\nserviceCIDRs: [172.30.0.0/16]\npodCIDRs: [10.128.0.0/14]\n"
	tests := []struct {
		name     string
		config   string // besides upstreams; SITE is the nameserver's address
		dnsmasq  string
		snapshot *zone.Snapshot // from the API
		client   string         // "" means other
		local    string         // "" means 192.0.2.10:53
		ask      string
		qtype    uint16 // 0 means A
		wire     bool
	}{
		{name: "A", ask: "web.example.com.", wire: true},
		{name: "A in mixed case", ask: "WEB.example.COM.", wire: true},
		{name: "AAAA through a CNAME", ask: "www.example.com.", qtype: dns.TypeAAAA, wire: true},
		{name: "long TXT", ask: "text.example.com.", qtype: dns.TypeTXT, wire: true},
		{name: "NXDOMAIN", ask: "nowhere.example.com.", wire: true},
		{name: "NODATA", ask: "mail.example.com.", wire: true},
		{name: "NXDOMAIN for a local pod", snapshot: bazaar(), client: pod, ask: "nowhere.example.com.", wire: true},
		{name: "NS of the root", config: "domainNeeded: false\n", ask: ".", qtype: dns.TypeNS, wire: true},
		{name: "type number that is an ASCII capital (HTTPS)", ask: "web.example.com.", qtype: dns.TypeHTTPS, wire: true},
		{name: "unusual octets", ask: `a\000b.example.com.`, wire: true},
		{name: "unusual octets in each label", ask: `a\000b.c\.d.\255.`, wire: true},

		{name: "this host at clusterListen", config: "clusterListen: [\"192.0.2.10:8053\"]\n", client: "192.0.2.10", local: "192.0.2.10:8053", ask: "web.example.com.", wire: true},

		{name: "localhost", ask: "localhost."},
		{name: "below localhost", ask: "me.localhost."},
		{name: "name like that of a loop probe", ask: "0123.loop.node-dns.", wire: true},
		{name: "name without a dot", ask: "printer."},
		{name: "name without a dot, domainNeeded off", config: "domainNeeded: false\n", ask: "printer.", wire: true},

		{name: "log-queries", dnsmasq: "log-queries\n", ask: "web.example.com.", wire: true},
		{name: "filter-A", dnsmasq: "filter-A\n", ask: "web.example.com."},
		{name: "filter-AAAA", dnsmasq: "filter-AAAA\n", ask: "web.example.com.", qtype: dns.TypeAAAA},
		{name: "filterwin2k and SRV", dnsmasq: "filterwin2k\n", ask: "_sip._udp.example.com.", qtype: dns.TypeSRV},
		{name: "filterwin2k and SOA", dnsmasq: "filterwin2k\n", ask: "example.com.", qtype: dns.TypeSOA},
		{name: "filterwin2k and A", dnsmasq: "filterwin2k\n", ask: "web.example.com.", wire: true},
		{name: "SRV without filterwin2k", ask: "_sip._udp.example.com.", qtype: dns.TypeSRV, wire: true},
		{name: "bogus-priv and PTR", dnsmasq: "bogus-priv\n", ask: "80.2.0.192.in-addr.arpa.", qtype: dns.TypePTR},
		{name: "bogus-priv and PTR of a public address", config: "kubeconfig: none\n", dnsmasq: "bogus-priv\n", ask: "7.0.31.173.in-addr.arpa.", qtype: dns.TypePTR, wire: true},
		{name: "bogus-priv and PTR of a name", dnsmasq: "bogus-priv\n", ask: "web.example.com.", qtype: dns.TypePTR, wire: true},
		{name: "bogus-priv and A", dnsmasq: "bogus-priv\n", ask: "web.example.com.", wire: true},
		{name: "PTR without bogus-priv", config: "kubeconfig: none\n", ask: "80.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, wire: true},
		{name: "PTR with unknown pod networks", ask: "80.2.0.192.in-addr.arpa.", qtype: dns.TypePTR},
		{name: "max-ttl", dnsmasq: "max-ttl=7\n", ask: "www.example.com.", wire: true},
		{name: "max-ttl and NXDOMAIN", dnsmasq: "max-ttl=7\n", ask: "nowhere.example.com.", wire: true},

		{name: "host-record of the name", dnsmasq: "host-record=web.example.com,192.0.2.99\n", ask: "web.example.com."},
		{name: "host-record of the name, another type", dnsmasq: "host-record=web.example.com,192.0.2.99\n", ask: "web.example.com.", qtype: dns.TypeTXT},
		{name: "host-record below the name", dnsmasq: "host-record=a.nowhere.example.com,192.0.2.99\n", ask: "nowhere.example.com."},
		{name: "host-record of a sibling", dnsmasq: "host-record=a.example.com,192.0.2.99\n", ask: "web.example.com.", wire: true},
		{name: "name below address=", dnsmasq: "address=/web.example.com/192.0.2.99\n", ask: "x.web.example.com."},
		{name: "name outside address=", dnsmasq: "address=/web.example.com/192.0.2.99\n", ask: "www.example.com.", wire: true},
		{name: "address=/#/", dnsmasq: "address=/#/192.0.2.99\n", ask: "web.example.com."},

		{name: "cluster name from the cluster's DNS", config: ownDNS, ask: "old.shop.svc.cluster.local.", wire: true},
		{name: "cluster name, NXDOMAIN", config: ownDNS, ask: "nowhere.shop.svc.cluster.local.", wire: true},
		{name: "cluster name, max-ttl", config: ownDNS, dnsmasq: "max-ttl=1\n", ask: "old.shop.svc.cluster.local.", wire: true},
		{name: "cluster name, filterwin2k", config: ownDNS, dnsmasq: "filterwin2k\n", ask: "_x._udp.shop.svc.cluster.local.", qtype: dns.TypeSRV, wire: true},
		{name: "cluster name with a host-record", config: ownDNS, dnsmasq: "host-record=old.shop.svc.cluster.local,192.0.2.99\n", ask: "old.shop.svc.cluster.local."},
		{name: "cluster name with unusual octets", config: ownDNS, ask: `a\000b.svc.cluster.local.`},
		{name: "before the first snapshot", config: bothDNS, ask: "old.shop.svc.cluster.local.", wire: true},
		{name: "stale snapshot", config: bothDNS, snapshot: bazaar().Stale(), ask: "old.shop.svc.cluster.local.", wire: true},
		{name: "stale snapshot, pod whose search continues", config: bothDNS, snapshot: bazaar().Stale(), client: pod, ask: "nowhere.shop.svc.cluster.local."},
		{name: "current snapshot", config: bothDNS, snapshot: bazaar(), ask: "site.shop.svc.cluster.local."},
		{name: "address outside the cluster networks", config: bothDNS, snapshot: bazaar(), ask: "7.0.31.172.in-addr.arpa.", qtype: dns.TypePTR, wire: true},
	}
	site := dnstest.NewServer(t, siteAndCluster)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := "nodeName: node-7\nupstreams: [\"SITE\"]\n" + test.config
			r := stillWith(t, strings.ReplaceAll(config, "SITE", site.Addr().String()), test.dnsmasq, test.snapshot)
			if test.client == "" {
				test.client = other
			}
			if test.local == "" {
				test.local = "192.0.2.10:53"
			}
			if test.qtype == 0 {
				test.qtype = dns.TypeA
			}
			q := asWireQuery(t, wireQuery(t, test.ask, test.qtype), test.client, test.local)
			q.Limit = dns.MaxMsgSize
			warm(t, r, q)
			response, ok := r.Fast([]byte("before"), &q)
			if ok != test.wire || !ok && string(response) != "before" {
				t.Fatalf("answered on the fast path: %v", ok)
			}
			if ok {
				sameHitAsServe(t, r, q, bytes.TrimPrefix(response, []byte("before")))
			}
		})
	}
}

// warm caches the upstream's answer to a query, whichever handler would answer it for a client.
func warm(t testing.TB, r *Resolver, q dnsserver.WireQuery) {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(q.Msg); err != nil {
		t.Fatal(err)
	}
	m.RecursionDesired = true
	for range 2 {
		parsed := &dnsserver.Query{Msg: m, Client: q.Client, Local: q.Local, Proto: q.Proto}
		parsed.Name, _ = dnsname.Parse(m.Question[0].Name)
		if _, err := (rest{r, r.state.Load(), anyAt, false}).ServeDNS(t.Context(), parsed); err != nil {
			t.Fatal(err)
		}
		if parsed.Cached {
			return
		}
	}
	t.Fatalf("%v is not cached", m.Question)
}

// siteQueries returns many questions about the site, each as several clients would send it.
func siteQueries(t testing.TB) (all [][]byte) {
	as := []func(*dns.Msg){
		func(*dns.Msg) {},
		func(m *dns.Msg) { m.SetEdns0(4096, true); m.CheckingDisabled, m.AuthenticatedData = true, true },
		func(m *dns.Msg) { m.SetEdns0(700, false); m.RecursionDesired = false },
		func(m *dns.Msg) { m.SetEdns0(0, true); m.Id, m.Zero = 0, true },
		func(m *dns.Msg) { m.Question[0].Name = strings.ToUpper(m.Question[0].Name) },
	}
	for line := range strings.Lines(siteAndCluster + "nowhere.example.com. 1\nnowhere. 1\nold.shop.svc.cluster.local. 1\n`a\\000b.example.com. 1\n" +
		"a\\000.web.example.com. 1\na\\000.localhost. 1\na\\000.x.onion. 1\na\\000.2.0.192.in-addr.arpa. 1\na\\000. 1\n") {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypeMX, dns.TypePTR, dns.TypeSOA, dns.TypeHTTPS, dns.TypeANY} {
			for _, change := range as {
				all = append(all, wireQuery(t, name, qtype, change))
			}
		}
	}
	return all
}

// TestSameHitOnTheWire: with and without the fast path a client gets the same response from the
// cache, over UDP and TCP.
func TestSameHitOnTheWire(t *testing.T) {
	site := dnstest.NewServer(t, siteAndCluster)
	for _, config := range []string{"kubeconfig: none\nclusterDNS: [\"SITE\"]\n", "podCIDRs: [10.128.0.0/14]\nserviceCIDRs: [172.30.0.0/16]\n"} {
		r := stillWith(t, strings.ReplaceAll("nodeName: node-7\nupstreams: [\"SITE\"]\n"+config, "SITE", site.Addr().String()), "max-ttl=150\n", bazaar())
		servers := twoServers(t, r)
		hits := 0
		for _, network := range []string{"udp", "tcp"} {
			c := servers.dial(t, network)
			for _, query := range siteQueries(t) {
				exchangeOn(t, c.parsed, query) // fills the cache
				before := r.Cache().Stats().Misses
				sameButAge(t, query, func() (wire, parsed *dns.Msg) {
					first, second := exchangeOn(t, c.wire, query), exchangeOn(t, c.parsed, query)
					if len(first) != len(second) || !bytes.Equal(first[:dnswire.HeaderSize], second[:dnswire.HeaderSize]) {
						t.Errorf("to %x\nfast path\n%x\nparsed\n%x", query, first, second)
					}
					return unpacked(t, first), unpacked(t, second)
				})
				if r.Cache().Stats().Misses == before {
					hits++
				}
			}
		}
		if hits < 300 {
			t.Errorf("%d hits", hits)
		}
	}
}

// sameHitAsServe is sameAsServe for a cached response.
func sameHitAsServe(t *testing.T, r *Resolver, q dnsserver.WireQuery, response []byte) {
	t.Helper()
	sameButAge(t, q.Msg, func() (wire, parsed *dns.Msg) {
		m := unpacked(t, response)
		response, _ = r.Fast(nil, &q) // for another attempt
		return m, serveParsed(t, r, q)
	})
}

// sameButAge checks that two cached responses are equal. The second one is slightly later, so a TTL
// may differ, but not in three attempts.
func sameButAge(t *testing.T, query []byte, ask func() (wire, parsed *dns.Msg)) {
	t.Helper()
	var a, b string
	for range 3 {
		wire, parsed := ask()
		if a, b = contents(wire), contents(parsed); a == b {
			return
		}
	}
	t.Fatalf("to %x\nfast path\n%s\nparsed\n%s", query, a, b)
}

func unpacked(t *testing.T, wire []byte) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatalf("%x: %v", wire, err)
	}
	return m
}

func TestHitAllocates(t *testing.T) {
	site := dnstest.NewServer(t, siteAndCluster)
	r := stillWith(t, "nodeName: node-7\nupstreams: [\""+site.Addr().String()+"\"]\n", "address=/a.test/192.0.2.1\nhost-record=b.test,192.0.2.1\n", bazaar())
	buf := make([]byte, 4096)
	for name, qtype := range map[string]uint16{"web.example.com.": dns.TypeA, "WWW.Example.com.": dns.TypeAAAA, "nowhere.example.com.": dns.TypeA, "text.example.com.": dns.TypeTXT} {
		q := asWireQuery(t, wireQuery(t, name, qtype), "10.128.0.41", "192.0.2.10:53")
		warm(t, r, q)
		ok := true
		if n := testing.AllocsPerRun(100, func() {
			_, hit := r.Fast(buf[:0], &q)
			ok = ok && hit
		}); n != 0 || !ok {
			t.Errorf("%s: %v allocations, hit %v", name, n, ok)
		}
	}
}

// TestHitsUnderAnotherConfiguration: what was learned about a frequently queried name is valid only
// under the same configuration.
func TestHitsUnderAnotherConfiguration(t *testing.T) {
	site := dnstest.NewServer(t, siteAndCluster)
	config := "kubeconfig: none\nnodeName: node-7\nupstreams: [\"" + site.Addr().String() + "\"]\n"
	for name, next := range map[string]policy.Inputs{
		"host-record of the name":    {Config: policytest.Config(t, config, ""), Dnsmasq: policytest.Dnsmasq(t, "host-record=web.example.com,192.0.2.99\n")},
		"name in the cluster domain": {Config: policytest.Config(t, config+"clusterDomain: example.com\n", "")},
		"filter-A":                   {Config: policytest.Config(t, config, ""), Dnsmasq: policytest.Dnsmasq(t, "filter-A\n")},
	} {
		t.Run(name, func(t *testing.T) {
			r := still(t, config, nil)
			q := asWireQuery(t, wireQuery(t, "web.example.com.", dns.TypeA), "10.128.0.42", "192.0.2.10:53")
			warm(t, r, q)
			for range 3 {
				if _, ok := r.Fast(nil, &q); !ok {
					t.Fatal("not answered from the cache")
				}
			}
			next.Net = policytest.Node()
			r.Apply(policy.New(next))
			if response, ok := r.Fast(nil, &q); ok {
				t.Errorf("answered from the cache: %x", response)
			}
		})
	}
}
