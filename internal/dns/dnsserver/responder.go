package dnsserver

import (
	"context"
	"encoding/hex"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// responder decides how a message is handled and makes its response. It does not use sockets. Its
// methods may be called concurrently.
type responder struct {
	cfg      Config
	places   atomic.Int64 // maximum number of queries handled at once
	shared   atomic.Int64 // Config.Shared
	largest  atomic.Int64 // maximum size of a UDP response in bytes
	cookies  cookieSecret
	clock    func() time.Time // clock for cookies
	counters counters
	panics   journal.Panics
	buffers  sync.Pool // *[]byte of bufferSize, to pack responses into

	access   atomic.Pointer[Access]   // nil allows every client
	shares   *Shares                  // slots per client
	spending *Limiter                 // bytes from upstream nameservers per client
	errors   *Limiter                 // error responses per network
	limited  atomic.Uint64            // number of error responses over that limit
	watch    atomic.Pointer[watching] // nil disables watching

	comesBack atomic.Pointer[IsOwn] // nil while none of our own queries is in flight

	// queries is the parent of every query's context.
	queries context.Context
	cancel  context.CancelFunc
}

// bufferSize is enough for nearly every response; larger ones allocate.
const bufferSize = 4096

// panicked logs a panic. p is the value that recover returned.
func (r *responder) panicked(x exchange, p any) {
	r.panics.Caught(r.cfg.Log, "answering a query panicked", journal.QueryPanic, p,
		"client", x.client, "query", hex.EncodeToString(x.wire[:min(len(x.wire), 512)]))
}

// recovered is deferred where a panic must affect only one client. x is the client's query, if
// there is one.
func (r *responder) recovered(x exchange) {
	if p := recover(); p != nil {
		r.panicked(x, p)
	}
}

// exchange is one received message for which a response is made.
type exchange struct {
	wire          []byte // as received; not modified, and not kept by the receiver
	client, local netip.AddrPort
	proto         Proto
	arrived       time.Time // zero means now
	tried         *UpstreamResult
}

// took returns the time since the query arrived, or a negative value if the arrival time is
// unknown.
func (x *exchange) took() time.Duration {
	if x.arrived.IsZero() {
		return -1
	}
	return max(0, time.Since(x.arrived))
}

// onWire calls Config.Wire for a message that accept let through, and appends the response to dst.
// Without a response, the message must be parsed. It takes no MaxInFlight slot, because it finishes
// before the receiver or the connection's goroutine handles another message. It reads the message
// into q; isWire is false if the message is not a WireQuery.
func (r *responder) onWire(x *exchange, q *WireQuery, dst []byte) (response []byte, isWire bool) {
	isWire = q.read(x, int(r.largest.Load()))
	if !isWire || r.cfg.Wire == nil {
		return nil, isWire
	}
	defer func() {
		if p := recover(); p != nil {
			r.panicked(*x, p)
			response = nil // let the Handler try
		}
	}()
	response, ok := r.cfg.Wire(dst, q)
	if !ok {
		return nil, true
	}
	return r.finish(response, len(dst), q), true
}

func (r *responder) countResponse(response []byte, count *tally) {
	count.answered.Add(1)
	if isTruncated(response) {
		count.truncated.Add(1)
	}
}

// finish adds the server's own parts to a response to q, which begins at start.
func (r *responder) finish(response []byte, start int, q *WireQuery) []byte {
	if q.cookie == 0 {
		return response
	}
	return r.addCookie(response, start, q.Msg[q.cookie:], q.Client.Addr())
}

// serve answers a message that accept let through. It returns the response, packed into buf or a
// larger buffer; nil means no response.
func (r *responder) serve(x exchange, buf []byte) []byte { return r.reply(x, buf, r.ask) }

// shed answers SERVFAIL without calling the Handler, on the receiving goroutine.
func (r *responder) shed(x exchange, buf []byte) []byte {
	return r.reply(x, buf, func(_ exchange, q *Query) (*dns.Msg, *atomic.Uint64) {
		q.failed = errShed
		return failure(q, dns.RcodeServerFailure, errShed), &r.counters.shed
	})
}

// answer makes the response to a query that may be answered, and returns the counter for it.
type answer func(x exchange, q *Query) (*dns.Msg, *atomic.Uint64)

// reply never panics, whatever the message contains.
func (r *responder) reply(x exchange, buf []byte, with answer) (response []byte) {
	var q *Query
	defer func() {
		if p := recover(); p != nil {
			r.panicked(x, p)
			r.counters.failed.Add(1)
			response = r.internalError(x, q, buf)
		}
	}()
	q, e, rcode := parseQuery(x.wire, x.client, x.local, x.proto)
	if q == nil {
		r.counters.refused.Add(1)
		response = r.refuse(x, rcode)
		r.watch.Load().tell(x, response, ByServer, "")
		return response
	}
	q.Tried, q.cookie = x.tried, r.cookieOption(x, e)
	out, outcome := failure(q, rcode, why(rcode)), &r.counters.refused
	if rcode == dns.RcodeSuccess {
		out, outcome = with(x, q)
	}
	if out != nil {
		var err error
		if response, err = r.render(q, out, buf); err != nil {
			outcome = &r.counters.failed
			response, _ = r.render(q, failure(q, dns.RcodeServerFailure, err), buf)
		}
	}
	outcome.Add(1)
	by := ByHandler
	if outcome == &r.counters.refused || outcome == &r.counters.shed {
		by = ByServer
	}
	if outcome == &r.counters.refused && !r.mayRefuse(x) {
		response = nil
	}
	r.tell(x, q, response, by)
	return response
}

// ask calls the Handler, recovers from its panics, and returns the counter for the outcome.
func (r *responder) ask(x exchange, q *Query) (out *dns.Msg, outcome *atomic.Uint64) {
	ctx, cancel := context.WithTimeout(r.queries, r.cfg.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r.panicked(x, p)
			q.failed = errInternal
			out, outcome = failure(q, dns.RcodeServerFailure, errInternal), &r.counters.failed
		}
	}()
	m, err := r.cfg.Handler.ServeDNS(ctx, q)
	q.failed = err
	switch {
	case err != nil:
		return failure(q, dns.RcodeServerFailure, err), &r.counters.failed
	case m == nil:
		return nil, &r.counters.silent
	}
	return complete(q, m), &r.counters.answered
}

// errShed is the error for clients when Config.MaxInFlight is reached.
var errShed = &ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "too many pending queries"}

// errInternal is the error for clients after a panic. RFC 8914 has no code for that.
var errInternal = &ExtendedError{Code: dns.ExtendedErrorCodeOther, Text: "internal error"}

// internalError returns the response to a query whose normal response could not be made. If q is
// nil, the query was not parsed, and the response has no explanation.
func (r *responder) internalError(x exchange, q *Query, buf []byte) (response []byte) {
	defer func() {
		if recover() != nil || response == nil {
			response = errorReply(x.wire, dns.RcodeServerFailure)
		}
	}()
	if q != nil {
		response, _ = r.render(q, failure(q, dns.RcodeServerFailure, errInternal), buf)
	}
	return response
}

func (r *responder) render(q *Query, out *dns.Msg, buf []byte) ([]byte, error) {
	wire, truncated, err := pack(out, q.limit(int(r.largest.Load())), buf)
	if err == nil && truncated {
		r.counters.truncated.Add(1)
	}
	return wire, err
}

// tell reports a parsed query to the watchers.
func (r *responder) tell(x exchange, q *Query, response []byte, outcome Outcome) {
	took := x.took()
	if !r.isObserved(took, response) {
		return
	}
	if outcome == ByHandler {
		outcome = q.outcome()
	}
	r.late(q.seen(Seen{Query: x.wire, Response: response, Client: x.client, Proto: x.proto, Took: took, Outcome: outcome}))
}

// answerProbe returns the response to a query of nameserver.Identify from this host, and nil for
// any other message. The daemon, the intercept helper and the hook send it to check whether
// node-dns answers. These queries are not counted, reported or limited.
//
// Any program of this host can send such a query. It gains nothing: this host has no limits
// anyway, and the Handler answers the question itself. Without a free slot the query is one like
// any other, so that a probe fails while the server sheds queries.
func (r *responder) answerProbe(x *exchange) []byte {
	if !nameserver.IsProbe(x.wire) {
		return nil
	}
	access, client := r.access.Load(), x.client.Addr()
	if !access.isHost(client) || !access.Allows(x.local, client) || r.enter(client) != entered {
		return nil
	}
	defer r.leave(client)
	q, _, rcode := parseQuery(x.wire, x.client, x.local, x.proto)
	if q == nil || rcode != dns.RcodeSuccess {
		return nil
	}
	m, err := r.cfg.Handler.ServeDNS(r.queries, q)
	if err != nil || m == nil {
		return nil
	}
	response, _, err := pack(complete(q, m), dns.MinMsgSize, nil)
	if err != nil {
		return nil
	}
	return response
}
