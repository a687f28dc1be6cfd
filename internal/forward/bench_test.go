package forward

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnstest"
)

// BenchmarkMiss asks a nameserver on loopback for a new name each time; its time has the
// nameserver's in it, which runs beside. BenchmarkHit in cache is what a hit takes.
func BenchmarkMiss(b *testing.B) {
	s := dnstest.NewServer(b, world)
	f := newForward(b, patient, plain(s))
	var n atomic.Uint64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			q := clientQuery("n"+strconv.FormatUint(n.Add(1), 36)+".example.", dns.TypeA)
			if _, err := f.ServeDNS(context.Background(), q); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
