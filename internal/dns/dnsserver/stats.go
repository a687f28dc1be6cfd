package dnsserver

import (
	"net/netip"
	"slices"
)

// Stats counts since the server was made. Every message is counted once under
// UDPQueries or TCPQueries, and once under what became of it, Answered to Hasty.
type Stats struct {
	UDPQueries, TCPQueries uint64 // messages received, of whatever kind

	Answered  uint64 // responses of the Handler or of Wire
	Failed    uint64 // SERVFAIL: the Handler returned an error, panicked, or made what is no message
	Silent    uint64 // the Handler wanted no response
	Refused   uint64 // FORMERR, NOTIMP, REFUSED or BADVERS by the server itself
	Dropped   uint64 // no response: too short, a response itself, or from port 0
	Shed      uint64 // SERVFAIL because MaxInFlight were being handled
	Crowding  uint64 // SERVFAIL because the client had its share of them
	Costly    uint64 // SERVFAIL because the client had had its share of what upstream nameservers send
	Strangers uint64 // REFUSED because the client may not ask
	Hasty     uint64 // REFUSED because the client asks more often than Access.Rate
	Panics    uint64 // how often what is done for a query panicked; what Wire leaves unanswered the Handler is asked

	Silenced    uint64 // of Refused, Strangers and Hasty: over UDP, above the limit on such responses; all but every tenth were not sent
	Truncated   uint64 // responses sent with TC because of the client's size
	WriteErrors uint64 // responses that could not be sent

	TCPAccepted uint64 // connections
	TCPRejected uint64 // connections closed at once: MaxTCP or MaxTCPPerClient
	TCPEvicted  uint64 // idle connections closed to make room

	TCPStarved uint64 // connections closed at once: no file descriptor was left

	Stranger netip.Addr // who asked and may not, now and then
	Crowder  netip.Addr // who had more than its share, of Crowding or Costly, now and then

	InFlight int64 // queries being handled now
	TCPOpen  int64 // connections open now
}

func (s *Server) addTally(t *tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tallies = append(s.tallies, t)
}

// removeTally keeps what a receiver that has ended has counted.
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

// Stats returns the counters. They are read one after the other, not at one
// moment.
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

// Traffic returns what was counted, of each transport and family that was ever listened on.
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
