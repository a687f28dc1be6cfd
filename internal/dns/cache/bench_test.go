package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// full returns a cache of many names and queries for some of them.
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

// BenchmarkHit answers queries for a thousand names from the cache, one after the other; with -cpu
// 2, on two processors. BenchmarkMiss in package forward measures what a hit saves.
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

// BenchmarkInsert stores responses to unique names and evicts others. The result includes the next
// handler.
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

// BenchmarkParts measures the parts of a hit in wire format: the key, copying a response while
// reducing its TTLs, and the same with only half of its records fitting.
func BenchmarkParts(b *testing.B) {
	var room room
	q := onWire(b, query("Host-7.some-zone.example.", dns.TypeA, flags{}))
	b.Run("key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			q.AppendKey(room[:0])
		}
	})
	for _, records := range []int{1, 20} {
		m := new(dns.Msg).SetQuestion("host-7.some-zone.example.", dns.TypeA)
		m.Response = true
		for i := range records {
			m.Answer = append(m.Answer, &dns.A{Hdr: header("host-7.some-zone.example.", dns.TypeA, 3600), A: []byte{192, 0, 2, byte(i)}})
		}
		e := newEntry(wireKey(&q, q.AppendKey(room[:0])), &dnsserver.Query{Msg: m}, m, 0, time.Hour)
		if e == nil {
			b.Fatal("the response cannot be stored")
		}
		whole := len(e.appendTo(nil, &q, 7, 0))
		for _, bench := range []struct {
			name  string
			limit int
		}{{"patch", dns.MaxMsgSize}, {"truncate", (whole + q.End) / 2}} {
			b.Run(fmt.Sprintf("%s %d", bench.name, records), func(b *testing.B) {
				q, buf := q, make([]byte, 0, 4096)
				q.Limit = bench.limit
				b.ReportAllocs()
				for b.Loop() {
					e.appendTo(buf, &q, 7, 0)
				}
			})
		}
	}
}
