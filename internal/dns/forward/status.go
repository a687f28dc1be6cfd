package forward

import (
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A RouteStatus is a route and the state of its servers.
type RouteStatus struct {
	Domain  dnsname.Name   `json:"domain"`
	Plain   bool           `json:"plain,omitempty"` // only for names of one label
	Local   bool           `json:"local,omitempty"` // its names do not exist
	Source  string         `json:"source,omitempty"`
	Servers []ServerStatus `json:"servers"`
}

// A ServerStatus is the state of a server. Asked and Failed count for one route, the rest for all
// routes of the server.
type ServerStatus struct {
	Server    nameserver.Server  `json:"server"`
	State     exchange.State     `json:"state"`
	Since     time.Time          `json:"since"`               // when the state began
	RTT       time.Duration      `json:"rtt"`                 // smoothed, in nanoseconds; 0 means not measured yet
	Queries   uint64             `json:"queries"`             // sent to it
	Failures  uint64             `json:"failures"`            // tries without a response
	Refusals  uint64             `json:"refusals"`            // responses such as SERVFAIL and REFUSED
	NXDomain  uint64             `json:"nxdomain"`            // NXDOMAIN responses
	Retries   uint64             `json:"retries"`             // questions sent again because the server was silent
	Asked     uint64             `json:"asked"`               // queries sent for this route
	Failed    uint64             `json:"failed"`              // of Asked, those without an answer
	LastError string             `json:"lastError,omitempty"` // last failure; kept when the server is up again
	Transport Transport          `json:"transport,omitempty"`
	UDPSize   uint16             `json:"udpSize,omitempty"` // largest response to request after losses; 0 if none
	Durations exchange.Durations `json:"-"`
}

// ForgetTimes resets the response times of all servers. Their states stay.
func (f *Forward) ForgetTimes() {
	for _, s := range f.table.Load().servers {
		s.ForgetTimes()
	}
}

// Status returns the routes in configured order.
func (f *Forward) Status() []RouteStatus {
	t := f.table.Load()
	all := make([]RouteStatus, 0, len(t.order))
	for _, r := range t.order {
		status := RouteStatus{Domain: r.Domain, Plain: r.Plain, Local: r.Local, Source: r.Source, Servers: make([]ServerStatus, 0, len(r.servers))}
		for i, s := range r.servers {
			is := s.status()
			is.Failed = r.tallies[i].failures.Load() // first, so that it never exceeds Asked
			is.Asked = r.tallies[i].queries.Load()
			status.Servers = append(status.Servers, is)
		}
		all = append(all, status)
	}
	return all
}

func (s *server) status() ServerStatus {
	is := s.Status()
	return ServerStatus{
		Server:    s.Server,
		State:     is.State,
		Since:     is.Since,
		RTT:       is.RTT,
		Queries:   s.queries.Load(),
		Failures:  is.Failures,
		Refusals:  is.Refusals,
		NXDomain:  is.NXDomain,
		Retries:   is.Retries,
		LastError: is.LastError,
		Transport: s.transport(),
		UDPSize:   is.UDPSize,
		Durations: is.Durations,
	}
}

// Stats holds counters since New, and the number of questions in flight.
type Stats struct {
	InFlight    int    `json:"inFlight"`
	Asked       uint64 `json:"asked"`       // questions sent upstream
	Unanswered  uint64 `json:"unanswered"`  // queries that failed because no server responded
	Joined      uint64 `json:"joined"`      // queries that shared the response to an identical one in flight
	Shed        uint64 `json:"shed"`        // queries refused because of MaxInFlight or a lack of sockets
	Starved     uint64 `json:"starved"`     // tries without a socket
	Ignored     uint64 `json:"ignored"`     // invalid responses: forged, foreign or malformed
	OverTCP     uint64 `json:"overTCP"`     // truncated responses retried over TCP
	WithoutEDNS uint64 `json:"withoutEDNS"` // questions retried without EDNS
	Looped      uint64 `json:"comebacks"`   // questions that their own server sent back to us
	Mismatched  uint64 `json:"doubted"`     // responses with a wrong cookie or letter case, retried over TCP
	Moved       uint64 `json:"moved"`       // questions moved to TCP after many invalid responses: a sign of spoofing
	Handshakes  uint64 `json:"handshakes"`  // TLS connections
	Resumed     uint64 `json:"resumed"`     // of Handshakes, those that resumed an earlier session
	Panics      uint64 `json:"panics"`      // recovered program errors, each of which failed one try
}

// Stats returns the current counters.
func (f *Forward) Stats() Stats {
	return Stats{
		InFlight:    int(f.flights.n.Load()),
		Asked:       f.counts.asked.Load(),
		Unanswered:  f.counts.unanswered.Load(),
		Joined:      f.counts.joined.Load(),
		Shed:        f.counts.shed.Load(),
		Starved:     f.counts.starved.Load(),
		Ignored:     f.counts.ignored.Load() + f.dialer.Ignored.Load(),
		OverTCP:     f.counts.overTCP.Load(),
		WithoutEDNS: f.counts.withoutEDNS.Load(),
		Looped:      f.counts.looped.Load(),
		Mismatched:  f.counts.mismatched.Load(),
		Moved:       f.counts.moved.Load(),
		Handshakes:  f.dialer.Handshakes.Load(),
		Resumed:     f.dialer.Resumed.Load(),
		Panics:      f.panics.Count(),
	}
}

// A tally counts the tries of one server in one route, without checks. It survives a change of the
// table. A nil tally counts nothing.
type tally struct {
	queries  atomic.Uint64 // tries
	failures atomic.Uint64 // of queries, those without an answer
}

func (c *tally) sent() {
	if c != nil {
		c.queries.Add(1)
	}
}

func (c *tally) failed() {
	if c != nil {
		c.failures.Add(1)
	}
}

// tally returns the tally of a server, or nil if the server is not in the route or r is nil.
func (r *route) tally(s *server) *tally {
	if r == nil {
		return nil
	}
	for i, other := range r.servers {
		if other == s {
			return r.tallies[i]
		}
	}
	return nil
}

// keepTallies gives each server its tally from before, the same route in an earlier table (or
// nil), or a new one.
func (r *route) keepTallies(before *route) {
	for _, s := range r.servers {
		c := before.tally(s)
		if c == nil {
			c = new(tally)
		}
		r.tallies = append(r.tallies, c)
	}
}
