package dnsserver

import (
	"net/netip"
	"sync/atomic"
)

// tally holds the counters of one receiver. Two receivers never write to the same cache line.
type tally struct {
	_          [64]byte
	udpQueries atomic.Uint64
	tcpQueries atomic.Uint64
	answered   atomic.Uint64
	refused    atomic.Uint64
	dropped    atomic.Uint64
	truncated  atomic.Uint64
	traffic    traffic
	_          [64]byte
}

// counts holds what one goroutine has counted and not yet moved to its tally.
type counts struct{ received, answered, truncated uint64 }

func (c *counts) add(response []byte) {
	c.answered++
	if isTruncated(response) {
		c.truncated++
	}
}

func (c *counts) move(t *tally) {
	if c.received > 0 {
		t.udpQueries.Add(c.received)
	}
	if c.answered > 0 {
		t.answered.Add(c.answered)
	}
	if c.truncated > 0 {
		t.truncated.Add(c.truncated)
	}
	*c = counts{}
}

func (t *tally) addTo(s *Stats) {
	s.UDPQueries += t.udpQueries.Load()
	s.TCPQueries += t.tcpQueries.Load()
	s.Answered += t.answered.Load()
	s.Refused += t.refused.Load()
	s.Dropped += t.dropped.Load()
	s.Truncated += t.truncated.Load()
}

// counters are the live counters behind Stats.
type counters struct {
	tally // for everything outside the current receivers

	failed, silent, shed                 atomic.Uint64
	crowding, costly                     atomic.Uint64
	strangers, hasty, silenced           atomic.Uint64
	writeErrors                          atomic.Uint64
	tcpAccepted, tcpRejected, tcpEvicted atomic.Uint64
	tcpStarved                           atomic.Uint64
	stranger, crowder                    atomic.Pointer[netip.Addr]
	inFlight, tcpOpen                    atomic.Int64
}

func (c *counters) denied(d denial) *atomic.Uint64 {
	switch d {
	case stranger:
		return &c.strangers
	case hasty:
		return &c.hasty
	case costly:
		return &c.costly
	}
	return &c.crowding
}
