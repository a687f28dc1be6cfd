package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
)

// full is a cache of many names, and queries for some of them, on the wire.
func full(b *testing.B) (*Cache, []*dnsserver.Query) {
	c := New(Config{Next: addresses(3600), Size: 10_000})
	var queries []*dnsserver.Query
	for i := range 1000 {
		q := query(fmt.Sprintf("host-%d.some-zone.example.", i), dns.TypeA, flags{})
		ask(b, c, q)
		queries = append(queries, q)
	}
	return c, queries
}

// BenchmarkHit answers queries for a thousand names from memory, one after the other; with -cpu 2 on two processors.
// BenchmarkMiss in forward is what it saves.
func BenchmarkHit(b *testing.B) {
	b.Run("parsed", func(b *testing.B) {
		c, queries := full(b)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				q := *queries[i%len(queries)]
				if _, err := c.ServeDNS(context.Background(), &q); err != nil || !q.Cached {
					b.Error("not a hit:", err)
					return
				}
			}
		})
	})
	b.Run("wire", func(b *testing.B) {
		c, queries := full(b)
		var wire []dnsserver.WireQuery
		for _, q := range queries {
			wire = append(wire, onWire(b, q))
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			buf := make([]byte, 4096)
			for i := 0; pb.Next(); i++ {
				if _, ok := c.AppendResponse(buf[:0], wire[i%len(wire)], 0); !ok {
					b.Error("not a hit")
					return
				}
			}
		})
	})
}

// BenchmarkInsert remembers responses to unique names, and forgets others for them. The next handler's part is in it.
func BenchmarkInsert(b *testing.B) {
	c := New(Config{Next: addresses(3600), Size: 10_000})
	var n atomic.Uint32
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			q := query(fmt.Sprintf("host-%d.some-zone.example.", n.Add(1)), dns.TypeA, flags{})
			if _, err := c.ServeDNS(context.Background(), q); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
