package forward

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/records"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestCostlyResponse: a response of 64 KiB that would become megabytes is its server's failure for this question, asked for once, and
// charged to the client. The server goes on to be asked for other names: an honest one passes on what a hostile one says.
func TestCostlyResponse(t *testing.T) {
	servers, addresses := startServers(t, 1)
	var size, spent atomic.Int64
	servers[0].SetFaultsFor("hip.example.", dnstest.Faults{Truncate: true, Raw: func(query []byte) [][]byte {
		hip := dnstest.CompressedHIP(query)
		size.Store(int64(len(hip[0])))
		return hip
	}})
	f := newForward(t, func(c *Config) {
		patient(c)
		c.Spent = func(_ netip.Addr, octets int) { spent.Add(int64(octets)) }
	}, addresses...)
	if m, err := f.ServeDNS(context.Background(), clientQuery("hip.example.", dns.TypeHIP)); !errors.Is(err, ErrNoResponse) {
		t.Errorf("answered %v, %v", m, err)
	}
	if got, want := spent.Load(), size.Load(); got != want || want < 65_000 {
		t.Errorf("the client is charged %d octets of %d", got, want)
	}
	if n := f.Stats().OverTCP; n != 1 {
		t.Errorf("asked %d times over TCP", n)
	}
	if mustAnswer(t, f) != addresses[0] {
		t.Error("the server is not asked any more")
	}
}

// costlyName leaves little room for labels below it.
var costlyName = strings.Repeat("a.", 80) + "example."

// costlyRead reads a response, and drops what was not asked for. It returns how long either takes; dropped is 0 if the response is refused.
func costlyRead(message []byte) (read, dropped time.Duration) {
	begun := time.Now()
	m, err := records.Unpack(message)
	read = time.Since(begun)
	if err != nil {
		return read, 0
	}
	records.KeepAsked(m, m.Question[0].Name, dns.TypeHIP, false)
	records.KeepUntil(m, m.Question[0].Name, func(string) bool { return true })
	return read, time.Since(begun) - read
}

// TestCost: to read a response, and to drop what was not asked for, takes no more memory than its size bounds, whatever is in it. To drop
// takes not much longer than to read, whose time is bounded: an owner of 1,000 characters that 4,000 records share took 60 times as long.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of messages of 64 KiB")
	}
	dnstest.CheckCosts(t, costlyName, costlyRead)
}

// BenchmarkCostly reads what is made to cost as much as can be, and drops what was not asked for.
func BenchmarkCostly(b *testing.B) {
	for what, message := range dnstest.Costly(costlyName, dns.TypeHIP) {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				costlyRead(message)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(message)), "ns/octet")
		})
	}
}
