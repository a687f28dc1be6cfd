package faultplan

import (
	"fmt"
	"math"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// Facts of the rows about messages.
const (
	ports   = "distinct ports"
	uses    = "queries from one port"
	next    = "next port, bits"
	entropy = "ID entropy, bits"
	strays  = "stray names remembered"
	cpuTime = "CPU, s"
	ended   = "ended"
)

// wire are the rows about the messages on the wire.
func wire() []Row {
	type faults = dnstest.Faults
	rows := []Row{
		{
			Name: "source ports for 4,000 queries, 10,000 a second", servers: 1,
			Promise: "≤ 8 queries from a socket, next port ≥ 7.8 bits for an attacker who knows the others, ID entropy ≥ 11.9 bits",
			play:    sourcePorts(dnstest.Load{Rate: fast, Count: 4000, Window: window}), want: wantEntropy,
		},
		{
			Name: "source ports for 500 queries, 50 a second", servers: 1, Promise: "≥ 483 distinct of 500",
			play: sourcePorts(dnstest.Load{Rate: 50, Count: 500}), want: wantDistinct,
		},
		{
			Name: "a query loop to itself, 101 queries", Promise: "refused at once; it never exits", servers: 1, itself: true,
			play: loop, want: wantRefused,
		},
	}
	for _, only := range []struct {
		name   string
		faults faults
	}{
		{"FORMERR", faults{FormErrOnEDNS: true}},
		{"silent", faults{DropOnEDNS: true}},
		{"BADVERS", faults{BadVersOnEDNS: true}},
	} {
		rows = append(rows, Row{
			Name: "EDNS broken at the only upstream: " + only.name, Promise: "100 %", servers: 1,
			play: bad(only.faults),
		})
	}
	const record = strayName + " 300 IN A " + dnstest.ForgedA
	for _, section := range []struct {
		name   string
		faults faults
	}{
		{"answer", faults{ExtraRR: record}},
		{"authority", faults{ExtraAuthority: record}},
		{"additional", faults{ExtraAdditional: record}},
	} {
		rows = append(rows, Row{
			Name: "stray records in the " + section.name + " section", Promise: "they are not cached", servers: 1,
			play: stray(section.faults), want: wantNoStray,
		})
	}
	return rows
}

// sourcePorts queries new names and checks the source ports and IDs of their queries.
func sourcePorts(load dnstest.Load) func(*stage) error {
	return func(s *stage) error {
		load.Asks = distinct("port")
		if err := s.ask(load, s.main, func() {}); err != nil {
			return err
		}
		var all []uint16
		byPort, byID, most := map[uint16]int{}, map[uint16]int{}, 0
		for _, q := range s.up[0].Received() {
			if q.Network == "udp" {
				port := q.Client.Port()
				all = append(all, port)
				byPort[port]++
				byID[q.Msg.Id]++
				most = max(most, byPort[port])
			}
		}
		s.note(ports, float64(len(byPort)))
		s.note(uses, float64(most))
		s.note(next, nextBits(all))
		s.note(entropy, bits(byID, len(all)))
		return nil
	}
}

// nextBits returns how many bits of the next port are unknown to an attacker who knows all earlier
// ones, and guesses one of the last 64. Without any repeated port, they are those of the kernel's
// range.
func nextBits(all []uint16) float64 {
	const last = 64
	hits, guesses := 0.0, 0.0
	for i, port := range all {
		for _, before := range all[max(0, i-last):i] {
			guesses++
			if before == port {
				hits++
			}
		}
	}
	const kernel = 28_232
	return -math.Log2(max(hits/max(guesses, 1), 1.0/kernel))
}

// bits returns the entropy of counts in bits.
func bits(counts map[uint16]int, all int) (sum float64) {
	for _, n := range counts {
		share := float64(n) / float64(all)
		sum -= share * math.Log2(share)
	}
	return sum
}

// wantEntropy leaves chance five standard deviations. A port that is drawn among 256 is guessed in
// 1,000 ± 32 of 256,000 guesses. The kernel, which by default has 28,232 ports
// (net.ipv4.ip_local_port_range), may draw a port three times in one run, each for up to eight
// queries. Random 16-bit IDs have 11.906 ± 0.006 bits.
func wantEntropy(o Outcome) string {
	if o.Fact(ports) < 500 || o.Fact(uses) > 24 || o.Fact(next) < 7.78 || o.Fact(entropy) < 11.87 {
		return fmt.Sprintf("%g ports, up to %g queries from one, next port %.2f bits, IDs of %.3f bits",
			o.Fact(ports), o.Fact(uses), o.Fact(next), o.Fact(entropy))
	}
	return allRight(o)
}

// wantDistinct leaves chance five standard deviations: 500 draws hit 495.6 ± 2.1 of 28,232 ports,
// and 494.6 of 23,000, while concurrent rows use the others.
func wantDistinct(o Outcome) string {
	if o.Fact(ports) < 483 {
		return fmt.Sprintf("%g ports", o.Fact(ports))
	}
	return allRight(o)
}

// loop queries a program that is its own upstream nameserver.
func loop(s *stage) error {
	const queries = 101
	before := s.program.CPU()
	err := s.ask(dnstest.Load{Rate: rate, Count: queries, Asks: distinct("loop")}, s.main, func() {})
	s.note(cpuTime, (s.program.CPU() - before).Seconds())
	s.note(memoryMB, s.program.Memory())
	if !s.program.Running() {
		s.note(ended, 1)
	}
	return err
}

func wantRefused(o Outcome) string {
	if o.Asked == 0 || o.Failed < o.Asked || o.Fact(ended) > 0 || o.Fact(memoryMB) > mostMB {
		return "not all were refused, or the program ended"
	}
	return ""
}

// strayName is a name that no client has queried when an upstream nameserver sends a record of it.
const strayName = "bank.test."

// stray queries names whose answers contain records of another name, and then that name.
func stray(f dnstest.Faults) func(*stage) error {
	return func(s *stage) error {
		s.up[0].SetFaults(f)
		if err := s.ask(dnstest.Load{Asks: distinct("n")}, s.main, func() { s.pass(0.5) }); err != nil {
			return err
		}
		s.up[0].SetFaults(dnstest.Faults{})
		time.Sleep(10 * time.Millisecond)
		err := s.ask(dnstest.Load{Count: 10, Asks: []dnstest.Ask{{Name: strayName, Type: dns.TypeA, Want: address}}}, s.main, func() {})
		if s.up[0].QueriesFor(strayName, dns.TypeA) == 0 {
			s.note(strays, 1)
		}
		return err
	}
}

func wantNoStray(o Outcome) string {
	if o.Fact(strays) > 0 {
		return "an unsolicited record was cached"
	}
	return allRight(o)
}
