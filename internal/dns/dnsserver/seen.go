package dnsserver

import (
	"errors"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Watch is told of each query what became of it, once its response is made. It is called from many goroutines at once, from
// those that receive too: it must not wait for anything.
type Watch func(Seen)

// watching is a Watch with how many hits a second of one receiver it is told of; 0: all.
type watching struct {
	tells Watch
	hits  int
}

// Seen is what became of one query.
type Seen struct {
	Query    []byte         // as it was received; not to be changed, and not to be kept
	Response []byte         // likewise, as it is sent; nil: none is
	Client   netip.AddrPort // zero: it came over no socket
	Proto    Proto
	Took     time.Duration // since the query was received; less than 0: that is not known
	Outcome  Outcome
	Server   nameserver.Server // that the answer came from; zero: none
	Why      string            // there is no answer; "": there is one, or the rcode says it all
	Stands   int               // for so many like it, of which the others are not told of; 0: for itself
}

// Outcome says who has answered.
type Outcome int

// Who has answered.
const (
	ByWire     Outcome = iota // Config.Wire
	ByUpstream                // Seen.Server, which was asked now
	ByMemory                  // what was remembered
	ByStale                   // what was remembered, and has expired
	ByHandler                 // the Handler, of itself
	ByNobody                  // there is no answer: the Handler has failed
	ByFailure                 // what was remembered: that there was no answer (RFC 9520)
	ByServer                  // the server itself: the query has a fault, or a bound is met
)

// FailedBefore is what a client is told, and Seen.Why is, of a failure that is remembered.
const FailedBefore = "failed a moment ago"

// tell tells of a query what the server itself did with it.
func (w *watching) tell(x exchange, response []byte, outcome Outcome, why string) {
	if w != nil {
		w.tells(Seen{Query: x.wire, Response: response, Client: x.client, Proto: x.proto, Took: x.took(), Outcome: outcome, Why: why})
	}
}

// hit tells of a query that was answered on the wire, if the sampler picks it.
func (w *watching) hit(x *exchange, response []byte, picks *sampler) {
	if n := picks.take(); n > 0 {
		w.tells(Seen{Query: x.wire, Response: response, Client: x.client, Proto: x.proto, Took: x.took(), Outcome: ByWire, Stands: n})
	}
}

// SlowAfter is the time from which on an answer is slow.
const SlowAfter = 100 * time.Millisecond

// IsFailed reports whether the client got no answer. That a name does not exist is one.
func (s *Seen) IsFailed() bool {
	if len(s.Response) < headerSize {
		return s.Outcome != ByHandler // which wants none now and then
	}
	rcode := int(s.Response[3] & 0xf)
	return rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError
}

// late tells of a query that was not answered at once: the Watch, and Config.Trouble if it is one.
func (r *responder) late(seen Seen) {
	if w := r.watch.Load(); w != nil {
		w.tells(seen)
	}
	if r.cfg.Trouble != nil && seen.Outcome != ByServer && (seen.Took >= SlowAfter || seen.IsFailed()) {
		r.cfg.Trouble(seen)
	}
}

// isTold reports whether anybody may be told of such a query, before a Seen is made of it.
func (r *responder) isTold(took time.Duration, response []byte) bool {
	return r.watch.Load() != nil || r.cfg.Trouble != nil && (took >= SlowAfter || (&Seen{Response: response}).IsFailed())
}

// seen is what the server knows of a query, and what the Handler left in it.
func (q *Query) seen(seen Seen) Seen {
	if seen.Outcome == ByUpstream {
		seen.Server = q.AnsweredBy
	}
	var extended *ExtendedError
	if errors.As(q.failed, &extended) {
		seen.Why = extended.Text
	}
	return seen
}

// Seen is what became of a query that Direct has had answered, without client and protocol, which it has none of: the messages, packed,
// are the caller's.
func (q *Query) Seen(query, response []byte, took time.Duration) Seen {
	outcome := q.outcome()
	if q.faulty {
		outcome = ByServer
	}
	return q.seen(Seen{Query: query, Response: response, Took: took, Outcome: outcome})
}

// outcome says who has answered a query that the Handler was given.
func (q *Query) outcome() Outcome {
	switch {
	case q.failed != nil && q.Cached:
		return ByFailure
	case q.failed != nil:
		return ByNobody
	case q.Stale:
		return ByStale
	case q.Cached:
		return ByMemory
	case !q.AnsweredBy.IsZero():
		return ByUpstream
	}
	return ByHandler
}
