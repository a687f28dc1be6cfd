package forward

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestLoopToServer: a server that keeps sending us the question that we sent it, without answering,
// is refused. A server with an address of this host is not refused, because other clients here
// share that address. Both are reported.
func TestLoopToServer(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		isOwn   func(netip.Addr) bool
		refused bool
	}{
		{"another host", nil, true},
		{"this host", netip.Addr.IsLoopback, false},
	}
	for _, row := range rows {
		for road, lanes := range map[string]int{"lanes": 1, "Handler": 0} {
			t.Run(row.name+"/"+road, func(t *testing.T) {
				t.Parallel()
				var s *laneServer
				made := make(chan struct{})
				var suspicions, refused atomic.Int32
				var asking sync.WaitGroup
				p := newPeer(t, func(query []byte, _ bool) [][]byte {
					name := nameIn(t, query)
					if name == "." {
						return nil
					}
					<-made
					asking.Go(func() {
						m := dnstest.Exchange(t, s.addr, name, dns.TypeA, dnstest.EDNS(1232))
						if m.Rcode == dns.RcodeRefused {
							refused.Add(1)
						}
					})
					return nil // the server waits for us
				})
				s = newLaneServer(t, func(c *Config) {
					c.Lanes, c.IsOwn, c.Suspect = lanes, row.isOwn, func() { suspicions.Add(1) }
				}, p.address)
				close(made)
				var clients sync.WaitGroup
				const questions = 30
				for i := range questions {
					clients.Go(func() {
						// The client has the server's address here, so the Handler may refuse it.
						if got := s.exchange(t, fmt.Sprintf("n%d.example.", i), dns.TypeA); got != "SERVFAIL" && got != "REFUSED" {
							t.Error(got)
						}
					})
				}
				clients.Wait()
				asking.Wait()
				if n := s.f.Stats().Looped; n < questions || suspicions.Load() == 0 {
					t.Errorf("got %d looped queries and %d suspicions", n, suspicions.Load())
				}
				if n := refused.Load(); (n > 0) != row.refused {
					t.Errorf("got %d refused queries", n)
				}
				if n := len(p.seen()); n > 6*questions {
					t.Errorf("sent %d questions in %d queries", questions, n)
				}
			})
		}
	}
}

// TestNoLoopToServer: a server that is also a client, but answers, is not a loop.
func TestNoLoopToServer(t *testing.T) {
	for road, lanes := range map[string]int{"lanes": 1, "Handler": 0} {
		t.Run(road, func(t *testing.T) {
			_, addresses := startServers(t, 1)
			var suspicions atomic.Int32
			s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes, c.Suspect = lanes, func() { suspicions.Add(1) } }, addresses...)
			for i := range 30 {
				var clients sync.WaitGroup
				for range maxLoopQueries / 2 { // from the server's own address
					clients.Go(func() {
						if got := s.exchange(t, fmt.Sprintf("n%d.example.", i), dns.TypeA); got != "NXDOMAIN" {
							t.Error(got)
						}
					})
				}
				clients.Wait()
			}
			if n := suspicions.Load(); n != 0 {
				t.Errorf("got %d suspicions, want 0", n)
			}
		})
	}
}
