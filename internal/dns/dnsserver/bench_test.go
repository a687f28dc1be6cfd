package dnsserver_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/zone"
)

// BenchmarkAnswer measures a query from the received bytes to the response bytes, in a cluster
// with 10,000 services: parsed by the Handler, on the fast path, and from the cache.
func BenchmarkAnswer(b *testing.B) {
	remembered := remembering()
	resolver := zone.NewResolver(zone.Config{
		Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}, TTL: -1, NegativeTTL: -1, Next: remembered,
	})
	resolver.Set(services(10_000))
	s := dnsserver.New(dnsserver.Config{
		Handler: resolver,
		Wire: func(dst []byte, q *dnsserver.WireQuery) ([]byte, bool) {
			var room [dnswire.MaxQuestion]byte
			question := q.AppendKey(room[:0])
			if response, ok := resolver.AppendReady(dst, q, question); ok {
				return response, true
			}
			if response, ok := remembered.AppendMarked(dst, q, question, 0, 1); ok {
				return response, true
			}
			if response, ok := resolver.AppendResponse(dst, q.Msg, q.Limit); ok {
				return response, true
			}
			return remembered.AppendAndMark(dst, q, question, 0, 1)
		},
	})
	defer s.Shutdown(context.Background())
	for _, bench := range []struct {
		name, ask string
		qtype     uint16
	}{
		{"A", "service-4711.shop.svc.cluster.local.", dns.TypeA},
		{"SRV", "_http._tcp.service-4711.shop.svc.cluster.local.", dns.TypeSRV},
		{"NXDOMAIN", "www.example.com.shop.svc.cluster.local.", dns.TypeA},
		{"cache hit", "www.example.com.", dns.TypeA},
	} {
		m := new(dns.Msg).SetQuestion(bench.ask, bench.qtype)
		m.SetEdns0(1232, false)
		wire, err := m.Pack()
		if err != nil {
			b.Fatal(err)
		}
		s.Parsed(wire, make([]byte, 4096)) // the answer is now cached
		b.Run(bench.name+"/parsed", func(b *testing.B) { repeat(b, s.Parsed, wire) })
		b.Run(bench.name+"/wire", func(b *testing.B) { repeat(b, s.OnWire, wire) })
	}
}

func repeat(b *testing.B, answer func(wire, buf []byte) []byte, wire []byte) {
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if answer(wire, buf) == nil {
			b.Fatal("no answer on this path")
		}
	}
}

func services(n int) *zone.Snapshot {
	builder := new(zone.Builder)
	for i := range n {
		builder.SetService(&zone.Service{
			Key:        zone.Key{Namespace: "shop", Name: fmt.Sprintf("service-%d", i)},
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{172, 30, byte(i >> 8), byte(i)})},
			Ports:      []zone.Port{{Name: "http", Number: 80}},
		})
	}
	return builder.Snapshot(time.Unix(1, 0))
}

// remembering returns a cache in front of an upstream that has an address for every name.
func remembering() *cache.Cache {
	upstream := func(_ context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q.Msg)
		m.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: q.Msg.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600},
			A:   netip.MustParseAddr("192.0.2.80").AsSlice(),
		}}
		return m, nil
	}
	return cache.New(cache.Config{Next: dnsserver.HandlerFunc(upstream), Size: 10_000})
}
