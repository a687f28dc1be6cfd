package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestProbes: the queries that node-dns's own programs send to check whether it answers do not
// count as traffic. Every other query does: a query for version.bind by another program, by another
// host, and one that gets no slot. With Cilium the daemon once counted one query of its own a
// minute, and with the intercept helper six.
func TestProbes(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	handler := HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q.Msg)
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "version.bind.", Rrtype: dns.TypeTXT, Class: dns.ClassCHAOS}, Txt: []string{"node-dns 1"}}}
		return m, nil
	})
	watch := func(Seen) { told.Add(1) }
	server := New(Config{Handler: handler, Trouble: watch, Failed: watch})
	defer server.Shutdown(context.Background())
	server.SetWatch(watch, 0)
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	port := server.Listeners()[0].Addr
	probe := func() {
		t.Helper()
		by, err := nameserver.Identify(t.Context(), new(net.Dialer), port, time.Now().Add(10*time.Second))
		if err != nil || by != "node-dns 1" && by != "" {
			t.Fatalf("got %q, %v", by, err)
		}
	}
	read := func() (all uint64) {
		for _, q := range server.queues() {
			if strings.HasPrefix(q.name, "udp ") {
				all += q.taken
			}
		}
		return all
	}
	host, others := NewNetworks([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}), NewNetworks(nil)
	const probes = 20
	for _, row := range []struct {
		name    string
		access  *Access
		places  int
		ask     func()
		counted bool
	}{
		{"this host's probe", &Access{Clients: host, Host: host, Rate: 1}, 10, probe, false},
		{"another host's probe", &Access{Clients: host, Host: others}, 10, probe, true},
		{"of a client that is not allowed", &Access{Clients: others, Host: host}, 10, probe, true},
		{"without an access list", nil, 10, probe, true},
		{"without a free slot", &Access{Clients: host, Host: host}, -1, probe, true},
		{"another program's query", &Access{Clients: host, Host: host}, 10, func() {
			query := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
			query.Question[0].Qclass = dns.ClassCHAOS
			if _, _, err := new(dns.Client).Exchange(query, port.String()); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		server.SetAccess(row.access)
		server.SetMaxInFlight(row.places, row.places)
		before, beforeTold, beforeRead := server.Stats(), told.Load(), read()
		for range probes {
			row.ask()
		}
		after, want := server.Stats(), uint64(0)
		if row.counted {
			want = probes
		}
		if n := after.UDPQueries - before.UDPQueries; n != want {
			t.Errorf("%s: counted %d of %d queries", row.name, n, probes)
		}
		if after.UDPQueries = before.UDPQueries; !row.counted && (after != before || told.Load() > beforeTold) {
			t.Errorf("%s: got stats %+v, had %+v, and %d calls of Watch, Trouble and Failed", row.name, after, before, told.Load()-beforeTold)
		}
		// The watchdog would kill a daemon that gets only probes, if they did not count as read.
		if n := read() - beforeRead; n != probes {
			t.Errorf("%s: the watchdog sees that %d of %d queries were read", row.name, n, probes)
		}
	}
	if err := server.Shutdown(context.Background()); err != nil { // then all is counted
		t.Fatal(err)
	}
	var types uint64
	for _, one := range server.Traffic() {
		for _, n := range one.Types {
			types += n
		}
	}
	if got := server.Stats().UDPQueries; types != got {
		t.Errorf("the traffic has %d queries, the counters %d", types, got)
	}
}
