package view

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/miekg/dns"
	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// TestDumpIsNeverWhole proves that a dump of 50,000 responses holds only a few of them in memory at
// a time.
func TestDumpIsNeverWhole(t *testing.T) {
	const many = 50_000
	c := cache.New(cache.Config{Size: 2 * many, Next: dnsserver.HandlerFunc(func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q.Msg)
		rr, err := dns.NewRR(q.Msg.Question[0].Name + " 300 IN A 192.0.2.1")
		m.Answer = []dns.RR{rr}
		return m, err
	})})
	for i := range many {
		q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.", i), dns.TypeA)}
		if _, err := c.ServeDNS(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, sent, most := live(), 0, uint64(0)
	err := dump(t.Context(), c, control.CachePart{}, func(control.CacheEntry) error {
		if sent++; sent%(many/5) == 0 {
			most = max(most, live())
		}
		return nil
	})
	if err != nil || sent != many {
		t.Fatalf("got %d entries, %v", sent, err)
	}
	if most > before+2<<20 {
		t.Errorf("heap was %d KiB before and at most %d KiB", before>>10, most>>10)
	}
}
