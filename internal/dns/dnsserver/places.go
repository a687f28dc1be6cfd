package dnsserver

import (
	"math"
	"net/netip"
	"sync/atomic"
	"time"
)

// place is what became of a query that wants one of the MaxInFlight places.
type place int

const (
	entered place = iota // who has must leave
	full                 // all places are taken
	enough               // the client has its share of them
	spent                // the client has had its share of what upstream nameservers send
)

// fewPlaces is how many a client may have though there are none left to share out: as many as one TCP connection asks for.
const fewPlaces = 16

// enter takes a place for a client.
func (s *Server) enter(client netip.Addr) place {
	if s.spending.Over(client) && !s.access.Load().isHost(client) {
		return spent
	}
	n := s.counters.inFlight.Add(1)
	switch free := s.shared.Load() - n + 1; {
	case n > s.places.Load():
		s.counters.inFlight.Add(-1)
		return full
	case !s.shares.Take(client, int(max(free, fewPlaces))):
		s.counters.inFlight.Add(-1)
		return enough
	}
	return entered
}

// waitToEnter is enter for a query that found no place, and may wait for one. When the wait is over before its time the query
// enters beyond MaxInFlight. nil: it never is.
func (s *Server) waitToEnter(client netip.Addr, patience time.Duration, over *atomic.Bool) bool {
	const pause = time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if over != nil && over.Load() {
			s.enterBeyond(client)
			return true
		}
		time.Sleep(pause)
		if s.enter(client) == entered {
			return true
		}
	}
	return false
}

// enterBeyond takes a place that there need not be.
func (s *Server) enterBeyond(client netip.Addr) {
	s.counters.inFlight.Add(1)
	s.shares.Take(client, math.MaxInt)
}

const (
	// spendRate is how many octets upstream nameservers may send a second for one client, and in one go.
	spendRate = 256 << 10
	// spendFree is what is free of each message: nearly all are no longer.
	spendFree = udpSize
)

// Charge has a client pay for a message of so many octets that an upstream nameserver has sent for it, and so for the time that reading it
// takes. Who has spent its share is answered from memory, and by the cluster's zone, alone for a while; this host never has.
func (s *Server) Charge(client netip.Addr, octets int) {
	if octets > spendFree {
		s.spending.Charge(client, octets-spendFree)
	}
}

func (s *Server) leave(client netip.Addr) {
	s.counters.inFlight.Add(-1)
	s.shares.Give(client)
}
