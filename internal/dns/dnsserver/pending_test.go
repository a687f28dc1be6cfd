package dnsserver_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// TestHandleAll: queries with the same answer are handled a few at a time, and all of them.
func TestHandleAll(t *testing.T) {
	const queries, most = 300, 64
	var mu sync.Mutex
	var waiting []*dnsserver.PendingQuery
	var running, highest, handled atomic.Int32
	tried := &dnsserver.UpstreamResult{Msg: new(dns.Msg)}
	server := dnsserver.New(dnsserver.Config{
		Miss: func(l *dnsserver.PendingQuery) bool {
			mu.Lock()
			defer mu.Unlock()
			if waiting = append(waiting, l); len(waiting) == queries {
				dnsserver.HandleAll(waiting, tried)
				clear(waiting)
			}
			return true
		},
		Handler: dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			n := running.Add(1)
			defer running.Add(-1)
			for before := highest.Load(); n > before && !highest.CompareAndSwap(before, n); before = highest.Load() {
			}
			if q.Tried != tried {
				t.Errorf("got %v", q.Tried)
			}
			handled.Add(1)
			time.Sleep(time.Millisecond)
			return new(dns.Msg), nil
		}),
	})
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown(context.Background())
	conn, err := net.Dial("udp", server.Listeners()[0].Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wire, err := new(dns.Msg).SetQuestion("www.example.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < queries; i++ {
		if _, err := conn.Write(wire); err != nil {
			t.Fatal(err)
		}
		for int(server.Stats().InFlight) <= i && handled.Load() == 0 { // none is lost
			time.Sleep(100 * time.Microsecond)
		}
	}
	for handled.Load() < queries {
		time.Sleep(time.Millisecond)
	}
	if n := highest.Load(); n > most {
		t.Errorf("%d at a time", n)
	}
}
