package dnsserver

import (
	"math"
	"net/netip"
	"sync/atomic"
	"time"
)

// place is the outcome of a query's request for one of the MaxInFlight slots.
type place int

const (
	entered place = iota // the caller must call leave
	full                 // all slots are taken
	enough               // the client has its share of the slots
	spent                // the client has used its share of upstream traffic
)

// fewPlaces is the number of slots that a client may have even if none are left to share. One TCP
// connection asks for that many.
const fewPlaces = 16

// enter takes a slot for a client.
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

// waitToEnter is enter for a query that found no free slot and may wait for one. If over becomes
// true during the wait, the query enters beyond MaxInFlight. A nil over never does.
func (r *responder) waitToEnter(client netip.Addr, atMost time.Duration, over *atomic.Bool) bool {
	const pause = time.Millisecond
	for deadline := time.Now().Add(atMost); time.Now().Before(deadline); {
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

// enterBeyond takes a slot even if none is free.
func (r *responder) enterBeyond(client netip.Addr) {
	r.counters.inFlight.Add(1)
	r.shares.Take(client, math.MaxInt)
}

const (
	// spendRate is the number of bytes per second that upstream nameservers may send for one
	// client. It is also the burst size.
	spendRate = 256 << 10
	// spendFree is the part of each message that is not charged. Nearly all messages are no larger.
	spendFree = udpSize
)

func (r *responder) leave(client netip.Addr) {
	r.counters.inFlight.Add(-1)
	r.shares.Give(client)
}

const (
	// burst is the time per second that a receiver may wait for free slots before it sheds queries.
	// A burst of queries is read faster than it is answered. If dead upstreams keep the slots
	// taken, queries with answers on the fast path wait no longer than this.
	burst = 200 * time.Millisecond
	// backlog is the first such time. A socket that was taken over may hold thousands of queries
	// that arrived while no process was running.
	backlog = 2 * time.Second
)

// waitBudget is the time budget of a receiver for waiting for slots.
type waitBudget struct {
	left  time.Duration
	since time.Time // start of the current second
}

func newWaitBudget(now time.Time) waitBudget { return waitBudget{backlog, now} }

// at returns the remaining budget. Each second refills it to at least burst.
func (b *waitBudget) at(now time.Time) time.Duration {
	if now.Sub(b.since) >= time.Second {
		b.left, b.since = max(b.left, burst), now
	}
	return b.left
}

func (b *waitBudget) spend(d time.Duration) { b.left -= d }
