package dnsserver

import (
	"net/netip"
	"slices"
	"sync/atomic"
)

// Stats holds counters since the server was created. Every message is counted once under UDPQueries
// or TCPQueries, and once under its outcome, Answered to Hasty.
type Stats struct {
	UDPQueries, TCPQueries uint64 // all messages received

	Answered  uint64 // responses from the Handler or Wire
	Failed    uint64 // SERVFAIL: the Handler returned an error, panicked, or returned an invalid message
	Silent    uint64 // the Handler sent no response
	Refused   uint64 // FORMERR, NOTIMP, REFUSED or BADVERS by the server itself
	Dropped   uint64 // no response: too short, a response itself, or from port 0
	Shed      uint64 // SERVFAIL because MaxInFlight was reached
	Crowding  uint64 // SERVFAIL because the client had its share of the slots
	Costly    uint64 // SERVFAIL because the client had used its share of upstream traffic
	Strangers uint64 // REFUSED because the client is not allowed
	Hasty     uint64 // REFUSED because the client exceeded Access.Rate
	Panics    uint64 // panics while handling queries; after a panic in Wire, the Handler answers

	Silenced    uint64 // UDP responses over the limit on Refused, Strangers, Hasty; only every tenth was sent
	Truncated   uint64 // responses sent with TC because of the client's buffer size
	WriteErrors uint64 // responses that could not be sent

	TCPAccepted uint64 // connections
	TCPRejected uint64 // connections closed at once because of MaxTCP or MaxTCPPerClient
	TCPEvicted  uint64 // idle connections closed to make room

	TCPStarved uint64 // connections closed at once because no file descriptor was left

	Stranger netip.Addr // a recent client that is not allowed
	Crowder  netip.Addr // a recent client that exceeded its share (Crowding or Costly)

	InFlight int64 // queries being handled now
	TCPOpen  int64 // open connections
}

func (s *Server) addTally(t *tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tallies = append(s.tallies, t)
}

// removeTally adds the counters of a receiver that has ended to the server's.
func (s *Server) removeTally(t *tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tallies = slices.DeleteFunc(s.tallies, func(other *tally) bool { return other == t })
	c := &s.counters
	c.udpQueries.Add(t.udpQueries.Load())
	c.tcpQueries.Add(t.tcpQueries.Load())
	c.answered.Add(t.answered.Load())
	c.refused.Add(t.refused.Load())
	c.dropped.Add(t.dropped.Load())
	c.truncated.Add(t.truncated.Load())
	s.gone = merge(s.gone, t.traffic.read())
}

// Stats returns the counters. They are read one after the other, so they are not a consistent
// snapshot.
func (s *Server) Stats() Stats {
	c := &s.counters
	stats := Stats{
		Failed:      c.failed.Load(),
		Silent:      c.silent.Load(),
		Shed:        c.shed.Load(),
		Crowding:    c.crowding.Load(),
		Costly:      c.costly.Load(),
		Strangers:   c.strangers.Load(),
		Hasty:       c.hasty.Load(),
		Silenced:    c.silenced.Load(),
		Panics:      s.panics.Count(),
		WriteErrors: c.writeErrors.Load(),
		TCPAccepted: c.tcpAccepted.Load(),
		TCPRejected: c.tcpRejected.Load(),
		TCPEvicted:  c.tcpEvicted.Load(),
		TCPStarved:  c.tcpStarved.Load(),
		InFlight:    c.inFlight.Load(),
		TCPOpen:     c.tcpOpen.Load(),
	}
	if stranger := c.stranger.Load(); stranger != nil {
		stats.Stranger = *stranger
	}
	if crowder := c.crowder.Load(); crowder != nil {
		stats.Crowder = *crowder
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.addTo(&stats)
	for _, t := range s.tallies {
		t.addTo(&stats)
	}
	return stats
}

// Traffic returns the traffic of each transport and address family that was ever listened on.
func (s *Server) Traffic() []Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Traffic
	for _, one := range s.gone {
		all = merge(all, one)
	}
	for _, t := range s.tallies {
		all = merge(all, t.traffic.read())
	}
	return all
}

// tally holds the counters of one receiver. Two receivers never write to the same cache line.
type tally struct {
	_          [64]byte
	udpQueries atomic.Uint64
	tcpQueries atomic.Uint64
	answered   atomic.Uint64
	refused    atomic.Uint64
	dropped    atomic.Uint64
	truncated  atomic.Uint64
	own        atomic.Uint64 // our own queries over UDP, which no other counter counts; only for Alive
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
