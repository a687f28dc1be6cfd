package forward

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// What an attacker who forges responses must guess, over 4,000 queries. By default the kernel draws
// from 28,232 ports (net.ipv4.ip_local_port_range); 4,000 draws hit 3,730 ± 15 of them. Random
// 16-bit IDs have 11.905 ± 0.006 bits. CoreDNS keeps its sockets and used 8 ports, dnsdist 1.
const (
	drawnQueries = 4000
	fewestPorts  = 3700
	fewestBits   = 11.9
)

// TestChance: the port and ID of each query are unpredictable, with lanes and without. By chance
// alone, one round in 5 misses a bound, so all 8 rounds fail once in 400,000 runs. A source with
// half as many values never meets the bounds. Lanes are busy, so each of their ports serves up to
// portUses queries, in an order that cannot be guessed.
func TestChance(t *testing.T) {
	t.Parallel()
	for name, lanes := range map[string]int{"lanes": 2, "Handler": 0} {
		t.Run(name, func(t *testing.T) {
			var said string
			for range 8 {
				c := drawChances(t, lanes)
				said = fmt.Sprintf("%d queries from %d ports, each up to %d, guessed with a chance of %.4f, IDs of %.3f bits, %d and %d near the one before",
					drawnQueries, c.ports, c.uses, c.guess, c.bits, c.nearPorts, c.nearIDs)
				if c.nearPorts > 20 || c.nearIDs > 8 { // expected are 1.1 and 0.24
					t.Fatal(said)
				}
				isMany := c.ports >= fewestPorts
				if lanes > 0 { // by chance, the kernel draws a port three times
					isMany = c.ports >= drawnQueries/portUses && c.uses <= 3*portUses && c.guess < 3.0/minPool
				}
				if isMany && c.bits >= fewestBits {
					t.Log(said)
					return
				}
			}
			t.Error(said)
		})
	}
}

type chances struct {
	ports, uses        int
	guess, bits        float64
	nearPorts, nearIDs int // at most 4 or 2 from the previous query, but not the same port
}

func drawChances(t *testing.T, lanes int) (c chances) {
	servers, addresses := startServers(t, 1)
	s := newLaneServer(t, func(c *Config) { patient(c); c.Lanes = lanes }, addresses...)
	s.noStale.Store(true) // for a stale answer the Handler may ask again
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
		t.Fatalf("got %d queries", len(received))
	}
	ports, ids := map[uint16]int{}, map[uint16]int{}
	var drawn []uint16
	for i, q := range received {
		port, id := q.Client.Port(), q.Msg.Id
		drawn = append(drawn, port)
		ports[port]++
		ids[id]++
		if i == 0 {
			continue
		}
		if before := received[i-1].Client.Port(); before != port {
			c.nearPorts += isNear(port, before, 4)
		}
		c.nearIDs += isNear(id, received[i-1].Msg.Id, 2)
	}
	c.ports, c.uses, c.guess, c.bits = len(ports), mostUses(drawn), guess(drawn), entropy(ids)
	return c
}

func isNear(a, b, distance uint16) int {
	if a-b <= distance || b-a <= distance {
		return 1
	}
	return 0
}

// entropy returns the Shannon entropy of drawn, in bits.
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
