package cache

import (
	"context"
	"testing"

	"github.com/miekg/dns"
)

// BenchmarkHit answers one query from memory. BenchmarkMiss in forward is what it saves.
func BenchmarkHit(b *testing.B) {
	c := New(Config{Next: addresses(3600), Size: 10_000})
	q := query("www.example.", dns.TypeA, flags{})
	ask(b, c, q)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		q := query("www.example.", dns.TypeA, flags{})
		for pb.Next() {
			if _, err := c.ServeDNS(context.Background(), q); err != nil || !q.Cached {
				b.Error("not a hit:", err)
				return
			}
		}
	})
}
