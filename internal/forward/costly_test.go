package forward

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnstest"
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
