package view

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// sampleEvery is the interval for reading the counters. It is long enough not to affect
	// queries.
	sampleEvery = 10 * time.Second
	// aMinute is the period in the status. The latest sample before it is kept as the base for the
	// difference.
	aMinute = time.Minute
)

// LastMinute holds samples of the listeners' counters from the last minute.
type LastMinute struct {
	mu      sync.Mutex // guards samples
	samples []Counted  // oldest first
}

// Counted holds the counters at one point in time.
type Counted struct {
	at                 time.Time
	Queries, Responses uint64
	NXDomain, ServFail uint64
	Refused            uint64
	UpTo               map[time.Duration]uint64 // number of responses within each bound
	Limits             control.Limits
	Servers            []control.ServerMinute // all servers, counted since the start
	Routes             []control.RouteMinute  // all routes, counted since the start
	failed             failedSums             // since the sample before
}

func NewSample(at time.Time, all []dnsserver.Traffic) Counted {
	s := Counted{at: at, UpTo: map[time.Duration]uint64{}}
	for _, t := range all {
		for _, n := range t.Types {
			s.Queries += n
		}
		for i, n := range t.Rcodes {
			switch dnsserver.RcodeNames[i] {
			case "NXDOMAIN":
				s.NXDomain += n
			case "SERVFAIL":
				s.ServFail += n
			case "REFUSED":
				s.Refused += n
			}
		}
		count, _, upTo := t.Durations.Buckets()
		s.Responses += count
		for bound, n := range upTo {
			s.UpTo[time.Duration(bound*float64(time.Second))] += n
		}
	}
	return s
}

// add adds a sample and drops those that are no longer needed.
func (m *LastMinute) add(s Counted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.samples) > 1 && s.at.Sub(m.samples[1].at) >= aMinute {
		m.samples = m.samples[1:]
	}
	m.samples = append(slices.Clip(m.samples), s)
}

// since returns the difference over the last minute, or since the start if that is shorter. It
// returns nil if the period is too short.
func (m *LastMinute) since(now Counted) *control.LastMinute {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.samples) == 0 || now.at.Sub(m.samples[0].at) < sampleEvery {
		return nil
	}
	first, failures := m.samples[0], failedSums{}
	for _, s := range m.samples[1:] {
		failures.add(s.failed)
		if now.at.Sub(s.at) >= aMinute {
			first, failures = s, failedSums{}
		}
	}
	failures.add(now.failed)
	l := &control.LastMinute{
		Over: now.at.Sub(first.at), Queries: now.Queries - first.Queries, Responses: now.Responses - first.Responses,
		NXDomain: now.NXDomain - first.NXDomain, ServFail: now.ServFail - first.ServFail, Refused: now.Refused - first.Refused,
		Strangers: now.Limits.Strangers - first.Limits.Strangers, Limited: limited(now.Limits) - limited(first.Limits),
		Servers: failing(first.Servers, now.Servers), Recorded: failures.recorded,
		Routes: failures.routeMinutes(first.Routes, now.Routes), Clients: failures.clientMinutes(), Reasons: failures.reasonMinutes(),
	}
	l.P50, l.P99 = first.quantile(now, l.Responses, 50), first.quantile(now, l.Responses, 99)
	return l
}

// quantile returns the lowest bound within which percent of the responses stayed. It is 0 if there
// were none or they exceeded all bounds.
func (s Counted) quantile(now Counted, responses, percent uint64) (bound time.Duration) {
	for at, n := range now.UpTo {
		if responses > 0 && 100*(n-s.UpTo[at]) >= percent*responses && (bound == 0 || at < bound) {
			bound = at
		}
	}
	return bound
}

// limited returns the number of queries not served because of a limit, without those of clients
// that are not allowed to send queries.
func limited(l control.Limits) uint64 {
	return l.Hasty + l.Crowding + l.Costly + l.Full + l.Upstream
}

// failing returns the servers that left questions unanswered since the earlier sample. A new
// server, or one whose counters were reset, counts from zero.
func failing(before, now []control.ServerMinute) []control.ServerMinute {
	var all []control.ServerMinute
	for _, s := range now {
		i := slices.IndexFunc(before, func(b control.ServerMinute) bool {
			return b.Address == s.Address && b.Queries <= s.Queries && b.Failures <= s.Failures && b.Refusals <= s.Refusals
		})
		if i >= 0 {
			b := before[i]
			s.Queries, s.Failures, s.Refusals = s.Queries-b.Queries, s.Failures-b.Failures, s.Refusals-b.Refusals
		}
		if s.Failures+s.Refusals > 0 {
			all = append(all, s)
		}
	}
	return all
}

// sample reads all counters.
func (v *View) sample(at time.Time) Counted {
	s := NewSample(at, v.server.Traffic())
	s.Limits = v.queryStatus().Limits
	routes := v.resolver.Forward().Status()
	for _, route := range routes {
		if route.Source != policy.Guard {
			s.Routes = append(s.Routes, routeCounters(route))
		}
	}
	for _, server := range serversOf(routes) {
		s.Servers = append(s.Servers, control.ServerMinute{
			Address: server.Server.String(), Queries: server.Queries, Failures: server.Failures, Refusals: server.Refusals,
		})
	}
	return s
}

// routeCounters sums up the counters of a route's servers.
func routeCounters(route forward.RouteStatus) control.RouteMinute {
	r := control.RouteMinute{Domain: routeWord(route.Domain, route.Plain)}
	for _, server := range route.Servers {
		r.Queries, r.Unanswered = r.Queries+server.Asked, r.Unanswered+server.Failed
	}
	return r
}

// WatchMinute reads the counters periodically.
func (v *View) WatchMinute(ctx context.Context) error {
	for {
		s := v.sample(time.Now())
		s.failed = v.failures.take()
		v.minute.add(s)
		if !supervise.Sleep(ctx, sampleEvery) {
			return nil
		}
	}
}

// LastMinute returns what happened in the minute before now, or nil if too little time has passed
// since the start.
func (v *View) LastMinute(now time.Time) *control.LastMinute {
	s := v.sample(now)
	s.failed = v.failures.read()
	l := v.minute.since(s)
	if l == nil {
		return nil
	}
	for i := range l.Clients {
		l.Clients[i].Pod = v.podOfAddr(l.Clients[i].Client)
	}
	return l
}
