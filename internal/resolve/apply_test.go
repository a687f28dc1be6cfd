package resolve

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"unique"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// TestApplyForgets: answers of servers that are no longer used are dropped, and those of the others
// are kept.
func TestApplyForgets(t *testing.T) {
	site, other := dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, strings.ReplaceAll(siteRecords, "192.0.2.80", "192.0.2.81"))
	upstreams := func(s *dnstest.Server, more string) string {
		return "kubeconfig: none\nupstreams: [\"" + s.Addr().String() + "\"]\n" + more
	}
	r := New(config(0), policyOf(t, upstreams(site, ""), ""))
	t.Cleanup(r.Close)
	address := func() string {
		m, err := r.ServeDNS(t.Context(), clientQuery("www.example.com.", "192.0.2.10"))
		if err != nil || len(m.Answer) != 1 {
			t.Fatalf("%v, %v", m, err)
		}
		return m.Answer[0].(*dns.A).A.String()
	}
	for _, step := range []struct {
		name      string
		server    *dnstest.Server
		more      string // in node-dns.yaml
		rerouted  bool
		forgotten int
		want      string
		asked     int // total number of queries to that server
	}{
		{"no change", site, "", false, 0, "192.0.2.80", 1},
		{"same servers, another configuration", site, "domainNeeded: false\n", false, 0, "192.0.2.80", 1},
		{"another server", other, "", true, 1, "192.0.2.81", 1},
		{"first server again", site, "", true, 1, "192.0.2.80", 2},
	} {
		address() // now it is cached
		rerouted, forgotten := r.Apply(policyOf(t, upstreams(step.server, step.more), ""))
		if rerouted != step.rerouted || forgotten != step.forgotten {
			t.Errorf("%s: rerouted %v, %d dropped", step.name, rerouted, forgotten)
		}
		if got := address(); got != step.want || step.server.QueriesFor("www.example.com.", dns.TypeA) != step.asked {
			t.Errorf("%s: %s, queried %d times", step.name, got, step.server.QueriesFor("www.example.com.", dns.TypeA))
		}
	}
}

// TestApplyKeepsAnswersOfPods: a change among the DNS pods drops no cached answer. Another server
// does.
func TestApplyKeepsAnswersOfPods(t *testing.T) {
	pod := dnstest.NewServer(t, siteRecords)
	of := func(upstream string, pods ...nameserver.Server) *policy.Policy {
		return policy.New(policy.Inputs{
			Config: policytest.Config(t, "kubeconfig: /k\nintercept: clusterDNS\nupstreams: ["+upstream+"]\n", ""), Net: policytest.Node(),
			DNSService: policy.DNSService{Addrs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Pods: pods},
		})
	}
	first, second := nameserver.Server{Addr: pod.Addr()}, nameserver.MustParse("10.244.2.53")
	for _, row := range []struct {
		name      string
		next      *policy.Policy
		rerouted  bool
		forgotten int
	}{
		{"the same pod", of("10.96.0.10", first), false, 0},
		{"another pod", of("10.96.0.10", second), true, 0},
		{"another server in addition", of("'10.96.0.10', 10.0.0.9", second), true, 1},
		{"the site's server", of("10.0.0.9", second), true, 1},
	} {
		r := New(config(0), of("10.96.0.10", first))
		t.Cleanup(r.Close)
		if m, err := r.ServeDNS(t.Context(), clientQuery("www.example.com.", "192.0.2.10")); err != nil || len(m.Answer) != 1 {
			t.Fatalf("%s: %v, %v", row.name, m, err)
		}
		if rerouted, forgotten := r.Apply(row.next); rerouted != row.rerouted || forgotten != row.forgotten {
			t.Errorf("%s: rerouted %v, %d dropped; want %v, %d", row.name, rerouted, forgotten, row.rerouted, row.forgotten)
		}
	}
}

// TestReplyUnderAnotherPolicy: an upstream's reply to a query that was not parsed is neither
// returned nor cached if a handler affects the answer under the new Policy.
func TestReplyUnderAnotherPolicy(t *testing.T) {
	m := new(dns.Msg).SetQuestion("web.example.com.", dns.TypeA)
	for _, row := range []struct {
		name, nodeDNS, dnsmasq string
		kept                   bool
	}{
		{"no change", "", "", true},
		{"host-record of the name", "", "host-record=web.example.com,192.0.2.99\n", false},
		{"name in the cluster domain", "clusterDomain: example.com\n", "", false},
		{"filter-A", "", "filter-A\n", false},
		{"stop-dns-rebind", "", "stop-dns-rebind\n", false},
		{"use-stale-cache", "", "use-stale-cache\n", false},
	} {
		r := New(config(0), policyOf(t, "kubeconfig: none\n", ""))
		t.Cleanup(r.Close)
		q := asWireQuery(t, wireQuery(t, "web.example.com.", dns.TypeA), "10.128.0.42", "192.0.2.10:53")
		if _, ok := r.Fast(nil, &q); ok || q.Mark == 0 {
			t.Fatalf("fast path answered %v, mark %d", ok, q.Mark)
		}
		r.Apply(policyOf(t, "kubeconfig: none\n"+row.nodeDNS, row.dnsmasq))
		reply := forward.Reply{Query: q, Msg: new(dns.Msg).SetReply(m), From: unique.Make(nameserver.Server{}), Tag: r.Cache().Epoch()}
		if _, kept := r.keep(r.state.Load(), reply); kept != row.kept {
			t.Errorf("%s: got kept %v", row.name, kept)
		}
	}
}

// TestKeepAllocations: keeping a reply to a query that walked to the upstreams allocates only the
// cache entry, which includes its message.
func TestKeepAllocations(t *testing.T) {
	r := New(config(0), policyOf(t, "kubeconfig: none\n", ""))
	t.Cleanup(r.Close)
	q := asWireQuery(t, wireQuery(t, "web.example.com.", dns.TypeA), "10.128.0.42", "192.0.2.10:53")
	if _, ok := r.Fast(nil, &q); ok || q.Mark == 0 {
		t.Fatalf("fast path answered %v, mark %d", ok, q.Mark)
	}
	m := new(dns.Msg).SetReply(unpacked(t, q.Msg))
	m.Compress = true
	m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "web.example.com.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}, A: net.IPv4(192, 0, 2, 80)}}
	packed, err := m.Pack()
	wire, ok := exchange.Simple(q.Msg, packed)
	if err != nil || !ok {
		t.Fatalf("%v, readable %v", err, ok)
	}
	reply := forward.Reply{Query: q, Wire: wire, From: unique.Make(nameserver.Server{}), Tag: r.Cache().Epoch()}
	if n := testing.AllocsPerRun(100, func() { r.keep(r.state.Load(), reply) }); n > 1 {
		t.Errorf("got %v allocations, want 1", n)
	}
}

// TestMissUnderAnotherPolicy: a query that was for the upstreams when it arrived is not sent to
// them if a handler affects the answer under the new Policy.
func TestMissUnderAnotherPolicy(t *testing.T) {
	site := dnstest.NewServer(t, siteRecords)
	nodeDNS := "kubeconfig: none\nupstreams: [\"" + site.Addr().String() + "\"]\n"
	r := New(config(1), policyOf(t, nodeDNS, ""))
	t.Cleanup(r.Close)
	at := listen(t, dnsserver.Config{Handler: r, Wire: r.Fast, Miss: func(l *dnsserver.PendingQuery) bool {
		if l.Query().Mark == 0 {
			t.Error("the fast path did not reach the upstreams")
		}
		r.Apply(policyOf(t, nodeDNS, "host-record=www.example.com,192.0.2.99\n"))
		return r.Miss(l)
	}})
	m := unpacked(t, exchangeOn(t, bothWays{at, at}.dial(t, "udp").wire, wireQuery(t, "www.example.com.", dns.TypeA)))
	if len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != "192.0.2.99" || len(site.Received()) != 0 {
		t.Errorf("the upstream was queried %d times, got\n%v", len(site.Received()), m)
	}
}

// TestMissOfTheClusters: a query for a cluster name that the fast path cannot answer is left to the
// handler list. Otherwise the cluster's nameservers would be queried although the API may have the
// answer.
func TestMissOfTheClusters(t *testing.T) {
	site, cluster := dnstest.NewServer(t, siteAndCluster), dnstest.NewServer(t, siteAndCluster)
	r := stillOn(t, 1, "nodeName: node-7\nupstreams: [\""+site.Addr().String()+"\"]\nclusterDNS: [\""+cluster.Addr().String()+"\"]\n", "", bazaar())
	c := twoServers(t, r).dial(t, "udp")
	m := unpacked(t, exchangeOn(t, c.wire, wireQuery(t, "site.shop.svc.cluster.local.", dns.TypeA)))
	if len(m.Answer) != 3 || len(cluster.Received()) != 0 || site.QueriesFor("www.example.com.", dns.TypeA) != 1 {
		t.Errorf("%d queries to the cluster's nameserver, got\n%v", len(cluster.Received()), m)
	}
}
