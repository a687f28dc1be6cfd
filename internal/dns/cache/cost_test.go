package cache

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// costlyEntry parses a message and makes an entry of it as Keep does. It returns the time of each
// step; kept is 0 if the message is rejected.
func costlyEntry(message []byte) (read, kept time.Duration) {
	begun := dnstest.ThreadTime()
	m, err := dnswire.Unpack(message)
	read = dnstest.ThreadTime() - begun
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
	return read, dnstest.ThreadTime() - begun - read
}

// costlyName is so long that few labels fit below it.
const costlyName = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.b.example."

// TestCost: parsing and storing a response takes memory in proportion to its size, whatever it
// contains. Storing takes not much longer than parsing, whose time is bounded: owners with many
// upper-case letters took 100 times as long.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of messages of 64 KiB")
	}
	dnstest.CheckCosts(t, costlyName, costlyEntry)
}

// BenchmarkCostly parses and stores the most expensive responses.
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
