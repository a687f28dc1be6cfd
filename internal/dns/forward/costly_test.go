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

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestCostlyResponse: a 64 KiB response that would expand to megabytes counts as a failure of its
// server for this question only. It is requested once and charged to the client. The server is
// still asked for other names, because an honest server passes on what a hostile one sends.
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
		t.Errorf("got %v, %v", m, err)
	}
	if got, want := spent.Load(), size.Load(); got != want || want < 65_000 {
		t.Errorf("the client was charged %d octets, want %d", got, want)
	}
	if n := f.Stats().OverTCP; n != 1 {
		t.Errorf("got %d queries over TCP", n)
	}
	if mustAnswer(t, f) != addresses[0] {
		t.Error("the server gets no more queries")
	}
}

// costlyName is so long that few labels fit below it.
var costlyName = strings.Repeat("a.", 80) + "example."

// costlyRead parses a response and drops the records that the question did not ask for. It returns
// the time of each step; dropped is 0 if the response is rejected.
func costlyRead(message []byte) (read, dropped time.Duration) {
	begun := dnstest.ThreadTime()
	m, err := dnswire.Unpack(message)
	read = dnstest.ThreadTime() - begun
	if err != nil {
		return read, 0
	}
	dnswire.KeepAsked(m, m.Question[0].Name, dns.TypeHIP, false)
	dnswire.KeepUntil(m, m.Question[0].Name, func(string) bool { return true })
	return read, dnstest.ThreadTime() - begun - read
}

// TestCost: parsing a response and dropping unwanted records takes memory in proportion to its
// size, regardless of its content. Dropping takes not much longer than parsing, whose time is
// bounded: 4,000 records that shared an owner of 1,000 characters took 60 times as long.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of messages of 64 KiB")
	}
	dnstest.CheckCosts(t, costlyName, costlyRead)
}

// BenchmarkCostly parses the most expensive responses and drops unwanted records.
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
