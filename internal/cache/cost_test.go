package cache

import (
	"math"
	"runtime"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnstest"
	"github.com/node-dns/node-dns/internal/records"
)

// costlyEntry reads a message and makes an entry of it; nil: it is refused.
func costlyEntry(name string, message []byte) *entry {
	m, err := records.Unpack(message)
	if err != nil {
		return nil
	}
	q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(name, dns.TypeHIP)}
	q.Name, _ = dnsname.Parse(name)
	var room room
	k, ok := room.parsedKey(q.Msg)
	if !ok {
		panic("no key")
	}
	return newEntry(k, q, m, 0, 60)
}

// costlyName leaves little room for labels below it.
const costlyName = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.example."

// TestCost: to read a response and to remember it takes no more memory than its size bounds, whatever is in it.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of messages of 64 KiB")
	}
	for what, message := range dnstest.Costly(costlyName, dns.TypeHIP) {
		least := math.MaxInt
		for tries := 0; tries < 3 && least > 16*len(message); tries++ { // the runtime's own are among them
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			runtime.KeepAlive(costlyEntry(costlyName, message))
			runtime.ReadMemStats(&after)
			least = min(least, int(after.TotalAlloc-before.TotalAlloc))
		}
		if least > 16*len(message) {
			t.Errorf("%s: %d octets took %d, %.1f each", what, len(message), least, float64(least)/float64(len(message)))
		}
	}
}

// BenchmarkCostly reads and remembers what is made to cost as much as can be.
func BenchmarkCostly(b *testing.B) {
	for what, message := range dnstest.Costly(costlyName, dns.TypeHIP) {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				runtime.KeepAlive(costlyEntry(costlyName, message))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(message)), "ns/octet")
		})
	}
}
