package dnsserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// BenchmarkTraffic measures counting a query that is answered at once, with several responses per
// system call.
func BenchmarkTraffic(b *testing.B) {
	wire := packed(b, query("www.example.com.", dns.TypeA, edns(1232)))
	q := WireQuery{Msg: wire, End: questionEnd(wire)}
	response := errorReply(wire, dns.RcodeNameError)
	for _, size := range []int{1, 8, 32} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			t := newTraffic(UDP, anyPort.Addr())
			samples, now := make([]sample, size), time.Now()
			b.ReportAllocs()
			for i := range b.N {
				samples[i%size] = q.sample().with(response)
				if i%size == size-1 {
					t.sent(now, samples)
				}
			}
		})
	}
}
