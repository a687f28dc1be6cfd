package dnsserver

import (
	"context"
	"sync/atomic"

	"github.com/miekg/dns"
)

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
