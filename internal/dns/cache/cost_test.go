package cache

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/records"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// costlyEntry reads a message, and makes an entry of it as Keep does. It returns how long either takes; kept is 0 if it is refused.
func costlyEntry(message []byte) (read, kept time.Duration) {
	begun := time.Now()
	m, err := records.Unpack(message)
	read = time.Since(begun)
	if err != nil {
		return read, 0
	}
	name := strings.ToLower(m.Question[0].Name)
	q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(name, dns.TypeHIP)}
	q.Name, _ = dnsname.Parse(name)
	var room room
	k, ok := room.parsedKey(q.Msg)
	if !ok {
		panic("no key")
	}
	lifetime := newLimits(Config{NegativeTTL: time.Minute}).remember(q, m)
	inQuestionsCase(m, name)
	runtime.KeepAlive(newEntry(k, q, m, 0, lifetime))
	return read, time.Since(begun) - read
}

// costlyName leaves little room for labels below it.
const costlyName = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.example."

// TestCost: to read a response and to remember it takes no more memory than its size bounds, whatever is in it. To remember it takes not much
// longer than to read it, whose time is bounded: owners with many upper-case letters took 100 times as long.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of messages of 64 KiB")
	}
	dnstest.CheckCosts(t, costlyName, costlyEntry)
}

// BenchmarkCostly reads and remembers what is made to cost as much as can be.
func BenchmarkCostly(b *testing.B) {
	for what, message := range dnstest.Costly(costlyName, dns.TypeHIP) {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				costlyEntry(message)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(message)), "ns/octet")
		})
	}
}
