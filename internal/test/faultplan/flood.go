package faultplan

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// Facts of the rows with many names that no server answers.
const (
	ownAnswered = "own good names answered, %"
	silentAsked = "queries for a silent name"
)

// Limits for a flood of names that no server answers.
const (
	floodSize    = 2250 // concurrent open questions: the number that 500 per second leave open
	floodMemory  = 96   // MB of resident memory that the program may use
	floodOwnGood = 99.0 // % of the good names of the client that also queries silent ones
	floodOthers  = 99.9 // % of the names of another client
)

// floods are the rows in which one client queries names that no server answers.
func floods() []Row {
	return []Row{{
		Name:    "2,250 open questions of one client for names that no server answers",
		Promise: "≥ 99 % of its own good names, ≥ 99.9 % of another client's, resident ≤ 96 MB",
		play:    flood, want: wantRoom,
	}}
}

// flood simulates one client that queries silent and good names, and another client that queries
// only good names.
func flood(s *stage) error {
	for n := range floodSize {
		for _, server := range s.up {
			server.SetFaultsFor(silentName(n), dnstest.Faults{Drop: true})
		}
	}
	before := s.queries()
	flooder, other := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 9, 1})}, []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 9, 2})}
	silent := dnstest.Load{
		Rate: int(floodSize / s.size.Length.Seconds()), Count: floodSize, Clients: flooder,
		Asks: []dnstest.Ask{{Name: "n%d." + silentZone, Type: dns.TypeA, Want: address}},
	}
	own := new(tally)
	var resident float64
	var failed error
	err := s.ask(dnstest.Load{Asks: distinct("other"), Clients: other}, s.main, func() {
		failed = s.ask(dnstest.Load{Asks: distinct("own"), Clients: flooder, Rate: rate / 4}, own, func() {
			failed = s.ask(silent, new(tally), func() {
				for range 10 {
					s.pass(0.1)
					resident = max(resident, s.program.Memory())
				}
			})
		})
	})
	if err != nil {
		return err
	}
	messages := 0
	for n := range floodSize {
		for _, server := range s.up {
			messages += server.QueriesFor(silentName(n), dns.TypeA)
		}
	}
	s.count(s.queries() - before - messages - own.outcome().Asked)
	s.note(silentAsked, float64(messages)/floodSize)
	s.note(ownAnswered, own.outcome().OK())
	s.note(memoryMB, resident)
	return failed
}

func silentName(n int) string { return fmt.Sprintf("n%d.%s", n, silentZone) }

func wantRoom(o Outcome) string {
	switch {
	case o.Fact(silentAsked) > maxUpstream:
		return fmt.Sprintf("a silent name was asked for %.1f times", o.Fact(silentAsked))
	case o.Fact(memoryMB) > floodMemory:
		return fmt.Sprintf("%.0f MB were resident", o.Fact(memoryMB))
	case o.Fact(ownAnswered) < floodOwnGood:
		return fmt.Sprintf("%.1f %% of the client's own good names were answered", o.Fact(ownAnswered))
	case o.Asked == 0 || 100*float64(o.Right+o.Late) < floodOthers*float64(o.Asked):
		return fmt.Sprintf("%d of another client's %d good names were answered", o.Right+o.Late, o.Asked)
	}
	return ""
}
