package forward

import (
	"sync"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

func testRoute(domain string, servers ...string) Route {
	r := Route{Domain: dnsname.MustParse(domain), Source: "test of " + domain}
	for _, s := range servers {
		r.Servers = append(r.Servers, nameserver.MustParse(s))
	}
	return r
}

func TestMatchIsTheLongestSuffix(t *testing.T) {
	f := New(Config{Routes: []Route{
		testRoute(".", "192.0.2.1"),
		testRoute("cluster.local", "192.0.2.2"),
		testRoute("svc.cluster.local"),
		testRoute("30.172.in-addr.arpa", "192.0.2.3"),
	}})
	defer f.Close()
	rows := []struct{ name, want string }{
		{"www.example.com.", "."},
		{".", "."},
		{"local.", "."},
		{"cluster.local.", "cluster.local."},
		{"CLUSTER.local.", "cluster.local."},
		{"a.b.cluster.local.", "cluster.local."},
		{"a.svc.cluster.local.", "svc.cluster.local."},
		{"notcluster.local.", "."},
		{"1.0.30.172.in-addr.arpa.", "30.172.in-addr.arpa."},
		{"1.0.130.172.in-addr.arpa.", "."},
		// Bytes that no Name can have must not route a cluster name to the default servers.
		{`a\000b.cluster.local.`, "cluster.local."},
		{`a\.cluster.local.`, "."},
		{`x.a\032b.svc.cluster.local.`, "svc.cluster.local."},
		{`\255.`, "."},
	}
	for _, row := range rows {
		r := f.table.Load().match(clientQuery(row.name, dns.TypeA).Domain())
		if r == nil || r.Domain.String() != row.want {
			t.Errorf("%s: route %v, want %s", row.name, r, row.want)
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	f := New(Config{Routes: []Route{testRoute(".", "192.0.2.1")}})
	defer f.Close()
	table, name := f.table.Load(), dnsname.MustParse("a.b.c.d.example.com")
	if n := testing.AllocsPerRun(100, func() { table.match(name) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestNoRouteNoMatch(t *testing.T) {
	f := New(Config{Routes: []Route{testRoute("example", "192.0.2.1")}})
	defer f.Close()
	if r, ok := f.Match(dnsname.MustParse("example.com")); ok {
		t.Errorf("matched %v", r)
	}
	if r, ok := f.Match(dnsname.Name{}); ok {
		t.Errorf("no name matched %v", r)
	}
}

func TestSetRoutesJoinsAndCopies(t *testing.T) {
	given := testRoute("example", "192.0.2.1", "192.0.2.2", "192.0.2.1")
	f := New(Config{Routes: []Route{given, testRoute("EXAMPLE.", "192.0.2.2", "192.0.2.3"), {Servers: given.Servers[1:2]}}})
	defer f.Close()
	given.Servers[0] = nameserver.MustParse("6.6.6.6")
	r, ok := f.Match(dnsname.MustParse("a.example"))
	if !ok || len(r.Servers) != 3 || r.Servers[0] != nameserver.MustParse("192.0.2.1") || r.Source != "test of example" {
		t.Errorf("route %+v", r)
	}
	r.Servers[0] = nameserver.MustParse("6.6.6.6")
	if r, _ := f.Match(dnsname.MustParse("a.example")); r.Servers[0] != nameserver.MustParse("192.0.2.1") {
		t.Errorf("a caller changed the route: %+v", r)
	}
	if r, ok := f.Match(dnsname.MustParse("other")); !ok || !r.Domain.IsRoot() {
		t.Errorf("the zero Name as a domain is %+v", r)
	}
}

func TestServersKeepTheirHealth(t *testing.T) {
	f := New(Config{Routes: []Route{testRoute(".", "192.0.2.1", "192.0.2.2")}})
	defer f.Close()
	for range 3 {
		f.table.Load().servers[nameserver.MustParse("192.0.2.1")].failed(syscall.ECONNREFUSED)
	}
	f.SetRoutes([]Route{testRoute("corp.example", "192.0.2.1"), testRoute(".", "192.0.2.3", "192.0.2.1")})
	got := f.Status()
	if len(got) != 2 || got[0].Domain != dnsname.MustParse("corp.example") || got[0].Source != "test of corp.example" {
		t.Fatalf("got status %+v", got)
	}
	for _, s := range []ServerStatus{got[0].Servers[0], got[1].Servers[1]} {
		if s.State != exchange.Down || s.Failures != 3 || s.LastError != "connection refused" || s.Since.IsZero() {
			t.Errorf("got status %+v", s)
		}
	}
	if s := got[1].Servers[0]; s.State != exchange.Unknown || s.Server != nameserver.MustParse("192.0.2.3") {
		t.Errorf("new server %+v", s)
	}
}

// TestSameRoutesAgain: setting equal routes changes nothing; a question in flight is still sent
// once.
func TestSameRoutesAgain(t *testing.T) {
	g := newGate(t)
	addresses := []nameserver.Server{g.address}
	f := newForward(t, patient, addresses...)
	var clients sync.WaitGroup
	for i := range 10 {
		clients.Go(func() { mustAnswer(t, f) })
		await(t, "the client waits", func() bool { stats := f.Stats(); return stats.Asked+stats.Joined == uint64(i+1) })
		f.SetRoutes([]Route{{Servers: addresses}})
	}
	g.open()
	clients.Wait()
	if n := g.asked.Load(); n != 1 {
		t.Errorf("got %d upstream queries", n)
	}
	f.SetRoutes([]Route{{Servers: addresses, Source: "another"}})
	if got := f.Status()[0].Source; got != "another" {
		t.Errorf("the source is %q", got)
	}
}
