package dnsserver

import "sync/atomic"

// Stats counts since the server was made. Every message is counted once under
// UDPQueries or TCPQueries, and once under what became of it, Answered to Shed.
type Stats struct {
	UDPQueries, TCPQueries uint64 // messages received, of whatever kind

	Answered uint64 // responses of the Handler or of Wire
	Failed   uint64 // SERVFAIL: the Handler returned an error, panicked, or made what is no message
	Silent   uint64 // the Handler wanted no response
	Refused  uint64 // FORMERR, NOTIMP, REFUSED or BADVERS by the server itself
	Dropped  uint64 // no response: too short, a response itself, or from port 0
	Shed     uint64 // SERVFAIL because MaxInFlight were being handled
	Panics   uint64 // how often the Handler or Wire panicked; what Wire leaves unanswered the Handler is asked

	Truncated   uint64 // responses sent with TC because of the client's size
	WriteErrors uint64 // responses that could not be sent

	TCPAccepted uint64 // connections
	TCPRejected uint64 // connections closed at once: MaxTCP or MaxTCPPerClient
	TCPEvicted  uint64 // idle connections closed to make room

	InFlight int64 // queries being handled now
	TCPOpen  int64 // connections open now
}

// counters are Stats while they count.
type counters struct {
	udpQueries, tcpQueries                                   atomic.Uint64
	answered, failed, silent, refused, dropped, shed, panics atomic.Uint64
	truncated, writeErrors                                   atomic.Uint64
	tcpAccepted, tcpRejected, tcpEvicted                     atomic.Uint64
	inFlight, tcpOpen                                        atomic.Int64
}

// Stats returns the counters. They are read one after the other, not at one
// moment.
func (s *Server) Stats() Stats {
	c := &s.counters
	return Stats{
		UDPQueries:  c.udpQueries.Load(),
		TCPQueries:  c.tcpQueries.Load(),
		Answered:    c.answered.Load(),
		Failed:      c.failed.Load(),
		Silent:      c.silent.Load(),
		Refused:     c.refused.Load(),
		Dropped:     c.dropped.Load(),
		Shed:        c.shed.Load(),
		Panics:      c.panics.Load(),
		Truncated:   c.truncated.Load(),
		WriteErrors: c.writeErrors.Load(),
		TCPAccepted: c.tcpAccepted.Load(),
		TCPRejected: c.tcpRejected.Load(),
		TCPEvicted:  c.tcpEvicted.Load(),
		InFlight:    c.inFlight.Load(),
		TCPOpen:     c.tcpOpen.Load(),
	}
}
