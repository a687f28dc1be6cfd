package forward

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// BenchmarkMiss queries a nameserver on loopback for a new name each time. The result includes the
// time of that nameserver, which runs in the same process. BenchmarkHit in package cache measures a
// cache hit.
func BenchmarkMiss(b *testing.B) {
	s, secure := dnstest.NewServer(b, world), dnstest.NewTLSServer(b, world)
	b.Run("UDP", func(b *testing.B) { missAll(b, newForward(b, patient, plain(s))) })
	b.Run("TLS", func(b *testing.B) { missAll(b, newForward(b, trusting(secure), overTLS(secure))) })
}

func missAll(b *testing.B, f *Forward) {
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
