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
			Name: "source ports for 4,000 queries", Promise: "≥ 3,700 distinct of 4,000, ID entropy ≥ 11.9 bits", servers: 1,
			play: sourcePorts, want: wantEntropy,
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

// sourcePorts queries 4,000 names and checks the source ports and IDs of their queries.
func sourcePorts(s *stage) error {
	const n = 4000
	if err := s.ask(dnstest.Load{Rate: fast, Count: n, Window: window, Asks: distinct("port")}, s.main, func() {}); err != nil {
		return err
	}
	byPort, byID, all := map[uint16]int{}, map[uint16]int{}, 0
	for _, q := range s.up[0].Received() {
		if q.Network == "udp" {
			byPort[q.Client.Port()]++
			byID[q.Msg.Id]++
			all++
		}
	}
	s.note(ports, float64(len(byPort)))
	s.note(entropy, bits(byID, all))
	return nil
}

// bits returns the entropy of counts in bits.
func bits(counts map[uint16]int, all int) (sum float64) {
	for _, n := range counts {
		share := float64(n) / float64(all)
		sum -= share * math.Log2(share)
	}
	return sum
}

// wantEntropy leaves chance five standard deviations. By default the kernel has 28,232 ports
// (net.ipv4.ip_local_port_range), of which 4,000 draws hit 3,730 ± 16. With 23,000 ports, while
// concurrent rows use the others, they hit 3,673. Random 16-bit IDs have 11.906 ± 0.006 bits.
func wantEntropy(o Outcome) string {
	if o.Fact(ports) < 3590 || o.Fact(entropy) < 11.87 {
		return fmt.Sprintf("%g ports, IDs of %.3f bits", o.Fact(ports), o.Fact(entropy))
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
