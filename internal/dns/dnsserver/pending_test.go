package dnsserver_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestLaterAfterPanic: if Miss panics but still holds the query, a late Send must not answer
// another query.
func TestLaterAfterPanic(t *testing.T) {
	var mu sync.Mutex
	var given []*dnsserver.PendingQuery
	server := dnsserver.New(dnsserver.Config{
		Miss: func(l *dnsserver.PendingQuery) bool {
			mu.Lock()
			defer mu.Unlock()
			if len(given) == 0 {
				given = append(given, l)
				panic("after it was given away")
			}
			if l == given[0] {
				t.Error("a PendingQuery that is still referenced was reused")
			}
			given[0].Send(nil, nameserver.Handle{})
			return false
		},
		Handler: dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			return new(dns.Msg).SetReply(q.Msg), nil
		}),
	})
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown(context.Background())
	for range 20 {
		if m := dnstest.Exchange(t, server.Listeners()[0].Addr, "www.example.", dns.TypeA); m.Rcode != dns.RcodeSuccess {
			t.Errorf("the client got %v", m)
		}
	}
	if err := server.Shutdown(t.Context()); err != nil { // a query is in flight for a moment after its response
		t.Error(err)
	}
	if stats := server.Stats(); stats.Panics != 1 || stats.InFlight != 0 {
		t.Errorf("got stats %+v", stats)
	}
}
