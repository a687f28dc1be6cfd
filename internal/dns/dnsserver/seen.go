package dnsserver

import (
	"errors"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Watch is called with the outcome of each query, once its response is made. It is called from many
// goroutines at once, including receiving ones, so it must not block.
type Watch func(Seen)

// watching is a Watch with its limit of hits per second and receiver; 0 means no limit.
type watching struct {
	tells Watch
	hits  int
}

// Seen is the outcome of one query.
type Seen struct {
	Query    []byte         // as received; must not be modified or kept
	Response []byte         // likewise, as sent; nil if none is sent
	Client   netip.AddrPort // zero if the query did not come over a socket
	Proto    Proto
	Took     time.Duration // time since the query was received; negative if unknown
	Outcome  Outcome
	Server   nameserver.Server // nameserver that the answer came from; zero if none
	Why      string            // why there is no answer; "" if there is one or the rcode is enough
	Stands   int               // number of queries that this one represents; 0 if not sampled
}

// Outcome is the source of a response.
type Outcome int

// The sources of responses.
const (
	ByWire     Outcome = iota // Config.Wire
	ByUpstream                // Seen.Server, which was queried for this response
	ByMemory                  // the cache
	ByStale                   // an expired cache entry
	ByHandler                 // the Handler itself
	ByNobody                  // no answer: the Handler failed
	ByFailure                 // a cached failure (RFC 9520)
	ByServer                  // the server itself: the query is malformed or a limit is reached
)

// FailedBefore is the explanation of a cached failure, for clients and in Seen.Why.
const FailedBefore = "failed recently"

// tell reports a query that the server itself answered.
func (w *watching) tell(x exchange, response []byte, outcome Outcome, why string) {
	if w != nil {
		w.tells(Seen{Query: x.wire, Response: response, Client: x.client, Proto: x.proto, Took: x.took(), Outcome: outcome, Why: why})
	}
}

// hit reports a query that was answered on the fast path, if the sampler picks it.
func (w *watching) hit(x *exchange, response []byte, picks *sampler) {
	if n := picks.take(); n > 0 {
		w.tells(Seen{Query: x.wire, Response: response, Client: x.client, Proto: x.proto, Took: x.took(), Outcome: ByWire, Stands: n})
	}
}

// SlowAfter is the duration from which an answer counts as slow.
const SlowAfter = 100 * time.Millisecond

// IsFailed reports whether the client got no answer. NXDOMAIN is an answer.
func (s *Seen) IsFailed() bool {
	if len(s.Response) < headerSize {
		return s.Outcome != ByHandler // the Handler sometimes sends no response on purpose
	}
	rcode := int(s.Response[3] & 0xf)
	return rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError
}

// isFailure reports whether a response is SERVFAIL or REFUSED.
func isFailure(response []byte) bool {
	if len(response) < headerSize {
		return false
	}
	rcode := response[3] & 0xf
	return rcode == dns.RcodeServerFailure || rcode == dns.RcodeRefused
}

// failedAt reports a failure that the fast path or the server itself answered to Config.Failed.
func (r *responder) failedAt(x *exchange, response []byte, outcome Outcome, why string) {
	if r.cfg.Failed != nil && isFailure(response) {
		r.cfg.Failed(Seen{Query: x.wire, Response: response, Client: x.client, Proto: x.proto, Took: x.took(), Outcome: outcome, Why: why})
	}
}

// denied reports a query that the server itself answered to the Watch and to Config.Failed.
func (r *responder) denied(w *watching, x exchange, response []byte, why denial) {
	_, text := why.explanation()
	w.tell(x, response, ByServer, text)
	if why != stranger {
		r.failedAt(&x, response, ByServer, text)
	}
}

// late reports a query that was not answered on the fast path to the Watch, to Config.Trouble if it
// was slow or failed, and to Config.Failed.
func (r *responder) late(seen Seen) {
	if w := r.watch.Load(); w != nil {
		w.tells(seen)
	}
	if r.cfg.Trouble != nil && seen.Outcome != ByServer && (seen.Took >= SlowAfter || seen.IsFailed()) {
		r.cfg.Trouble(seen)
	}
	if r.cfg.Failed != nil && isFailure(seen.Response) {
		r.cfg.Failed(seen)
	}
}

// isObserved reports whether any watcher needs such a query, before a Seen is made for it.
func (r *responder) isObserved(took time.Duration, response []byte) bool {
	return r.watch.Load() != nil || r.cfg.Trouble != nil && (took >= SlowAfter || (&Seen{Response: response}).IsFailed()) ||
		r.cfg.Failed != nil && isFailure(response)
}

// seen completes what the server knows of a query with what the Handler left in it.
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

// Seen returns the outcome of a query that Direct answered, without client and protocol. query and
// response are the packed messages.
func (q *Query) Seen(query, response []byte, took time.Duration) Seen {
	outcome := q.outcome()
	if q.faulty {
		outcome = ByServer
	}
	return q.seen(Seen{Query: query, Response: response, Took: took, Outcome: outcome})
}

// outcome returns the source of the answer to a query that the Handler was called for.
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

// sampler picks cache hits for a watch that samples: one in stride. Misses take thousands of times
// as long as hits, so all of them are reported. A sampler belongs to one goroutine.
type sampler struct {
	began  time.Time // start of the window
	hits   int       // hits in the window
	stride int       // odd, because clients send A and AAAA queries in turn
	left   int       // hits before the next pick
}

// sampleWindow is the interval between adjustments of the stride to the hit rate.
const sampleWindow = 100 * time.Millisecond

// begin must be called before the hits of each batch, with the time of receipt. perSecond limits
// the picks; 0 picks all hits.
func (s *sampler) begin(now time.Time, perSecond int) {
	if perSecond == 0 {
		s.stride, s.left = 1, 0
		return
	}
	s.stride = max(s.stride, 1)
	budget := max(1, perSecond*int(sampleWindow)/int(time.Second))
	switch elapsed := now.Sub(s.began); {
	case elapsed >= sampleWindow:
		perWindow := int(int64(s.hits) * int64(sampleWindow) / int64(elapsed))
		s.stride = max(1, perWindow/budget) | 1
		s.began, s.hits, s.left = now, 0, min(s.left, s.stride-1)
	case s.hits > 2*budget*s.stride: // a burst: the previous window was quieter
		s.stride = 4*s.stride | 1
	}
}

// take counts a hit. It returns the number of hits that this one represents, or 0 if it is not
// picked.
func (s *sampler) take() int {
	s.hits++
	if s.left > 0 {
		s.left--
		return 0
	}
	s.left = s.stride - 1
	return s.stride
}
