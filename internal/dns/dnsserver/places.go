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
func (r *responder) enter(client netip.Addr) place {
	if r.spending.Over(client) && !r.access.Load().isHost(client) {
		return spent
	}
	n := r.counters.inFlight.Add(1)
	switch free := r.shared.Load() - n + 1; {
	case n > r.places.Load():
		r.counters.inFlight.Add(-1)
		return full
	case !r.shares.Take(client, int(max(free, fewPlaces))):
		r.counters.inFlight.Add(-1)
		return enough
	}
	return entered
}

// waitToEnter is enter for a query that found no place, and may wait for one. When the wait is over before its time the query
// enters beyond MaxInFlight. nil: it never is.
func (r *responder) waitToEnter(client netip.Addr, patience time.Duration, over *atomic.Bool) bool {
	const pause = time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if over != nil && over.Load() {
			r.enterBeyond(client)
			return true
		}
		time.Sleep(pause)
		if r.enter(client) == entered {
			return true
		}
	}
	return false
}

// enterBeyond takes a place that there need not be.
func (r *responder) enterBeyond(client netip.Addr) {
	r.counters.inFlight.Add(1)
	r.shares.Take(client, math.MaxInt)
}

const (
	// spendRate is how many octets upstream nameservers may send a second for one client, and in one go.
	spendRate = 256 << 10
	// spendFree is what is free of each message: nearly all are no longer.
	spendFree = udpSize
)

func (r *responder) leave(client netip.Addr) {
	r.counters.inFlight.Add(-1)
	r.shares.Give(client)
}
