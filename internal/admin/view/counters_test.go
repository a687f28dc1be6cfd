package view

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestAnsweredHere proves that questions without a client do not reduce the counter. hits.bind was
// 0, or went down, on a node whose admin used node-dns query, and on a node with prefetches.
func TestAnsweredHere(t *testing.T) {
	for _, row := range []struct {
		name      string
		served    dnsserver.Stats
		stored    cache.Stats
		forwarded forward.Stats
		want      uint64
	}{
		{name: "nothing"},
		{name: "one of three was queried", served: dnsserver.Stats{Answered: 3}, stored: cache.Stats{Hits: 2, Misses: 1}, forwarded: forward.Stats{Asked: 1}, want: 2},
		{name: "another query joined it", served: dnsserver.Stats{Answered: 4}, stored: cache.Stats{Hits: 2, Misses: 2}, forwarded: forward.Stats{Asked: 1, Joined: 1}, want: 2},
		{name: "cluster names bypass the cache", served: dnsserver.Stats{Answered: 9, Failed: 1}, stored: cache.Stats{Hits: 2, Misses: 1}, forwarded: forward.Stats{Asked: 1}, want: 9},
		{name: "a prefetch", served: dnsserver.Stats{Answered: 10}, stored: cache.Stats{Hits: 2, Misses: 1, Prefetched: 2}, forwarded: forward.Stats{Asked: 3}, want: 9},
		{name: "an admin's questions", served: dnsserver.Stats{Answered: 3}, stored: cache.Stats{Hits: 2, Misses: 21}, forwarded: forward.Stats{Asked: 21}, want: 2},
		{name: "stale answers and their refreshes", served: dnsserver.Stats{Answered: 5}, stored: cache.Stats{Stale: 4, Misses: 1}, forwarded: forward.Stats{Asked: 5}, want: 4},
	} {
		if got := answeredHere(row.served, row.stored, row.forwarded); got != row.want {
			t.Errorf("%s: got %d, want %d", row.name, got, row.want)
		}
	}
}

func TestServerTexts(t *testing.T) {
	status := func(text string, queries uint64) forward.ServerStatus {
		return forward.ServerStatus{Server: nameserver.Server{Addr: netip.MustParseAddrPort(text)}, Queries: queries, Failures: 2, Refusals: 1}
	}
	long := strings.Repeat(strings.Repeat("x", 60)+".", 4)
	got := serverTexts([]forward.RouteStatus{
		{Domain: dnsname.MustParse("corp.example"), Servers: []forward.ServerStatus{status("10.0.0.3:53", 7), status("[2001:db8::3]:5353", 0)}},
		{Domain: dnsname.MustParse("no.example"), Local: true},
		{Domain: dnsname.MustParse(long), Servers: []forward.ServerStatus{status("10.0.0.9:53", 1)}},
		{Plain: true, Domain: dnsname.Root(), Servers: []forward.ServerStatus{status("10.0.0.4:53", 5)}},
		{Domain: dnsname.Root(), Servers: []forward.ServerStatus{status("10.0.0.2:53", 40), status("10.0.0.2:53", 40)}},
	})
	want := []string{"/corp.example/10.0.0.3#53 7 3", "/corp.example/2001:db8::3#5353 0 3", "10.0.0.9#53 1 3", "//10.0.0.4#53 5 3", "10.0.0.2#53 40 3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var many []forward.ServerStatus
	for i := range 300 {
		many = append(many, status(fmt.Sprintf("10.0.%d.%d:53", i/200, i%200), 0))
	}
	if n := len(serverTexts([]forward.RouteStatus{{Domain: dnsname.Root(), Servers: many}})); n != maxTexts {
		t.Errorf("got %d texts", n)
	}
}
