package forward

import (
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/health"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A RouteStatus is a route and the state of its servers.
type RouteStatus struct {
	Domain  dnsname.Name   `json:"domain"`
	Plain   bool           `json:"plain,omitempty"` // for names of one label alone
	Local   bool           `json:"local,omitempty"` // its names do not exist
	Source  string         `json:"source,omitempty"`
	Servers []ServerStatus `json:"servers"`
}

// A ServerStatus is what is known about a server, over all routes that it is in but for Asked and Failed.
type ServerStatus struct {
	Server    nameserver.Server `json:"server"`
	State     health.State      `json:"state"`
	Since     time.Time         `json:"since"`               // of the state
	RTT       time.Duration     `json:"rtt"`                 // smoothed, nanoseconds; 0: not measured yet
	Queries   uint64            `json:"queries"`             // sent to it
	Failures  uint64            `json:"failures"`            // tries without a response
	Refusals  uint64            `json:"refusals"`            // responses that are no answer: SERVFAIL, REFUSED and the like
	NXDomain  uint64            `json:"nxdomain"`            // responses that there is no such name
	Retries   uint64            `json:"retries"`             // questions sent again, as it was silent to them
	Asked     uint64            `json:"asked"`               // queries sent to it for this route alone
	Failed    uint64            `json:"failed"`              // of these: without an answer
	LastError string            `json:"lastError,omitempty"` // of the last failure, also when the server is up again
	Transport Transport         `json:"transport,omitempty"`
	UDPSize   uint16            `json:"udpSize,omitempty"` // of the largest response to ask for, as larger ones were lost; 0: none was
	Durations health.Durations  `json:"-"`
}

// ForgetTimes forgets the response times of all servers. Their states stay.
func (f *Forward) ForgetTimes() {
	for _, s := range f.table.Load().servers {
		s.ForgetTimes()
	}
}

// Status returns the routes as they were configured.
func (f *Forward) Status() []RouteStatus {
	t := f.table.Load()
	all := make([]RouteStatus, 0, len(t.order))
	for _, r := range t.order {
		status := RouteStatus{Domain: r.Domain, Plain: r.Plain, Local: r.Local, Source: r.Source, Servers: make([]ServerStatus, 0, len(r.servers))}
		for i, s := range r.servers {
			is := s.status()
			is.Failed = r.tallies[i].failures.Load() // first: it is never more than what was asked
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

// Stats are counters since New, and the questions in flight now.
type Stats struct {
	InFlight    int    `json:"inFlight"`
	Asked       uint64 `json:"asked"`       // questions that were asked upstream
	Unanswered  uint64 `json:"unanswered"`  // queries that failed because no server responded
	Joined      uint64 `json:"joined"`      // queries that shared the response to an equal one in flight
	Shed        uint64 `json:"shed"`        // queries refused because MaxInFlight was reached, or this host had no socket
	Starved     uint64 `json:"starved"`     // tries for which this host had no socket
	Ignored     uint64 `json:"ignored"`     // messages that were no response to our query: forged, foreign or malformed
	OverTCP     uint64 `json:"overTCP"`     // truncated responses asked for again over TCP
	WithoutEDNS uint64 `json:"withoutEDNS"` // questions asked again without EDNS
	Comebacks   uint64 `json:"comebacks"`   // questions asked by the server that is asked them
	Doubted     uint64 `json:"doubted"`     // responses with another cookie than ours, or in another case: asked for again over TCP
	Moved       uint64 `json:"moved"`       // questions asked over TCP because too many invalid responses came over UDP: an attacker may be guessing
	Handshakes  uint64 `json:"handshakes"`  // TLS connections
	Resumed     uint64 `json:"resumed"`     // of which began with what an earlier one left
	Panics      uint64 `json:"panics"`      // faults of the program, each of which failed one try
}

// Stats returns the counters.
func (f *Forward) Stats() Stats {
	return Stats{
		InFlight:    f.flights.count(),
		Asked:       f.counts.asked.Load(),
		Unanswered:  f.counts.unanswered.Load(),
		Joined:      f.counts.joined.Load(),
		Shed:        f.counts.shed.Load(),
		Starved:     f.counts.starved.Load(),
		Ignored:     f.counts.ignored.Load() + f.dialer.Ignored.Load(),
		OverTCP:     f.counts.overTCP.Load(),
		WithoutEDNS: f.counts.withoutEDNS.Load(),
		Comebacks:   f.counts.comebacks.Load(),
		Doubted:     f.counts.doubted.Load(),
		Moved:       f.counts.moved.Load(),
		Handshakes:  f.dialer.Handshakes.Load(),
		Resumed:     f.dialer.Resumed.Load(),
		Panics:      f.panics.Count(),
	}
}

// A tally counts the tries of one server in one route, checks of the server apart. It outlives the table of the route. A nil tally counts
// nothing.
type tally struct {
	queries  atomic.Uint64 // tries
	failures atomic.Uint64 // of these: without an answer
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

// tally returns that of a server; nil for one that is not in the route, and for no route.
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

// goOnCounting gives each server a tally: that of before, the same route of an earlier table or nil, or a new one.
func (r *route) goOnCounting(before *route) {
	for _, s := range r.servers {
		c := before.tally(s)
		if c == nil {
			c = new(tally)
		}
		r.tallies = append(r.tallies, c)
	}
}
