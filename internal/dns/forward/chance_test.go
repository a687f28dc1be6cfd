package forward

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// What who forges responses has to guess, for 4,000 queries. The kernel draws from 28,232 ports unless told otherwise
// (net.ipv4.ip_local_port_range), of which they hit 3,730 ± 15; IDs that are drawn of 65,536 have 11.905 ± 0.006 bits. Of
// CoreDNS, which keeps its sockets, they came from 8 ports, of dnsdist from 1.
const (
	drawnQueries = 4000
	fewestPorts  = 3700
	fewestBits   = 11.9
)

// TestChance: each question has a port and an ID that nobody can foretell, on both roads. Chance alone misses one of the bounds
// in one of 5 rounds, and so in all of 8 once in 400,000 runs; a source with half as many values never meets them.
func TestChance(t *testing.T) {
	for name, lanes := range map[string]int{"lanes": 2, "Handler": 0} {
		t.Run(name, func(t *testing.T) {
			var said string
			for range 8 {
				c := drawChances(t, lanes)
				said = fmt.Sprintf("%d queries from %d ports, IDs of %.3f bits, %d and %d near the one before", drawnQueries, c.ports, c.bits, c.nearPorts, c.nearIDs)
				if c.nearPorts > 20 || c.nearIDs > 8 { // 1.1 and 0.24 are to be expected
					t.Fatal(said)
				}
				if c.ports >= fewestPorts && c.bits >= fewestBits {
					t.Log(said)
					return
				}
			}
			t.Error(said)
		})
	}
}

type chances struct {
	ports              int
	bits               float64
	nearPorts, nearIDs int // at most 4, or 2, from that of the query before
}

func drawChances(t *testing.T, lanes int) (c chances) {
	servers, addresses := startServers(t, 1)
	s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes = lanes }, addresses...)
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for i := range drawnQueries / 4 {
				if got := s.exchange(t, fmt.Sprintf("n%d-%d.example.", client, i), dns.TypeA); got != "NXDOMAIN" {
					t.Error(got)
				}
			}
		})
	}
	clients.Wait()
	s.f.Close()
	return chancesOf(t, servers[0])
}

func chancesOf(t *testing.T, server *dnstest.Server) (c chances) {
	received := server.Received()
	if len(received) != drawnQueries {
		t.Fatalf("%d queries", len(received))
	}
	ports, ids := map[uint16]int{}, map[uint16]int{}
	for i, q := range received {
		port, id := q.Client.Port(), q.Msg.Id
		ports[port]++
		ids[id]++
		if i == 0 {
			continue
		}
		c.nearPorts += isNear(port, received[i-1].Client.Port(), 4)
		c.nearIDs += isNear(id, received[i-1].Msg.Id, 2)
	}
	c.ports, c.bits = len(ports), entropy(ids)
	return c
}

func isNear(a, b, distance uint16) int {
	if a-b <= distance || b-a <= distance {
		return 1
	}
	return 0
}

// entropy is that of what was drawn, in bits (Shannon).
func entropy(drawn map[uint16]int) (bits float64) {
	total := 0.0
	for _, n := range drawn {
		total += float64(n)
	}
	for _, n := range drawn {
		p := float64(n) / total
		bits -= p * math.Log2(p)
	}
	return bits
}
