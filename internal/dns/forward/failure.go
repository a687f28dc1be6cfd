package forward

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

var errNotOneQuestion = errors.New("forwarding a query without exactly one question")

// Errors of a failed query. An error from ServeDNS matches one of them, or the error of the
// client's context.
var (
	ErrNoServers  = errors.New("no nameserver is known")
	ErrNoResponse = errors.New("no nameserver responded")
	ErrShed       = errors.New("too many queries in flight") // or no socket left
)

var errFull = errors.New("no room for another query")

// result returns the client's response or error when no response was final.
func (r *round) result(q exchange.Question) (*dns.Msg, *server, error) {
	if r.refusal.msg != nil {
		keepAsked(r.refusal.msg, q)
		return r.refusal.msg, r.refusal.to, nil
	}
	if r.fresh {
		r.misses = append(r.misses, outcome{attempt: r.current, err: exchange.ErrTimeout})
	}
	isRemote := func(o outcome) bool { return !exchange.IsLocal(o.err) }
	if len(r.misses) > 0 && !slices.ContainsFunc(r.misses, isRemote) {
		return nil, nil, extended(dns.ExtendedErrorCodeOther, "no socket for an upstream query: "+r.misses[0].reason(), q, ErrShed)
	}
	code, text := explain(r.misses)
	return nil, nil, extended(code, text, q, ErrNoResponse)
}

// extended builds the error for the client and for the log. Its text omits the question: the client
// knows it, and dnsserver cuts the text at 128 bytes.
func extended(code uint16, text string, q exchange.Question, cause error) error {
	return &dnsserver.ExtendedError{Code: code, Text: text, Err: fmt.Errorf("forwarding %s: %w", q, cause)}
}

// explain turns the misses into an Extended DNS Error. The code is 23 (Network Error) if each
// server failed with a network error or could not parse the query, and 22 (No Reachable Authority)
// otherwise. The text names each server once, with its last error.
func explain(misses []outcome) (code uint16, text string) {
	code = dns.ExtendedErrorCodeNetworkError
	var names, reasons []string
	for _, o := range misses {
		if !exchange.IsNetwork(o.err) && !(o.err == nil && o.msg.Rcode == dns.RcodeFormatError) {
			code = dns.ExtendedErrorCodeNoReachableAuthority
		}
		name := o.to.Server.String()
		i := slices.Index(names, name)
		if i < 0 {
			i = len(names)
			names, reasons = append(names, name), append(reasons, "")
		}
		reasons[i] = o.reason()
	}
	for i := range names {
		names[i] += " (" + reasons[i] + ")"
	}
	return code, "no response from " + strings.Join(names, ", ")
}

func noServers(q exchange.Question, r *route) error {
	text := "no upstream nameserver is known"
	if r != nil && !r.Domain.IsRoot() {
		text = "no nameserver is known for " + r.Domain.Relative()
	}
	return extended(dns.ExtendedErrorCodeNoReachableAuthority, text, q, ErrNoServers)
}

func tooMany(q exchange.Question, limit int) error {
	return extended(dns.ExtendedErrorCodeOther, fmt.Sprintf("already %d queries in flight", limit), q, ErrShed)
}

// canceled returns the error for a client whose own context ended first.
func canceled(q exchange.Question, r *route, cause error) error {
	names := make([]string, 0, maxTries)
	for _, s := range r.servers[:min(len(r.servers), maxTries)] {
		names = append(names, s.Server.String())
	}
	text := "no response yet from " + strings.Join(names, ", ")
	return extended(dns.ExtendedErrorCodeNoReachableAuthority, text, q, cause)
}

func (o outcome) reason() string {
	switch {
	case o.err != nil && o.tcp && !o.isLastResort():
		return exchange.Reason(o.err) + " over TCP"
	case o.err != nil:
		return exchange.Reason(o.err)
	case o.msg.Truncated:
		return "truncated"
	}
	return dns.RcodeToString[o.msg.Rcode]
}

// keepAsked drops records that do not belong to the question.
func keepAsked(m *dns.Msg, q exchange.Question) { dnswire.KeepAsked(m, q.Name, q.Type, q.DO) }

// internal returns the client's error for a question whose processing panicked.
func internal(fl *flight) error {
	text := "no response"
	if s := fl.first; s != nil {
		text += " from " + s.Server.String()
	}
	return extended(dns.ExtendedErrorCodeOther, text+" ("+errInternal.Error()+")", fl.key.Question(), errInternal)
}

// maxLoopQueries is the number of consecutive questions that a server may send us while the same
// question from us is pending there, without answering any of ours. A server may also be a client
// that queries a name at the same time as others, but then it answers.
const maxLoopQueries = 8

// errLoop is the error for a question that its own server sends back to us.
var errLoop = errors.New("the query came back")

// handleLoop handles a query from a server to which we have sent the same question. It reports
// whether to refuse the query: otherwise the server would wait for itself. A server on this host
// shares its address with other clients here, so it only raises a suspicion. counted belongs to the
// question, which counts only once.
func (f *Forward) handleLoop(s *server, counted *bool) (isRefused bool) {
	f.counts.looped.Add(1)
	n := s.CountLoop(*counted)
	*counted = true
	if n < maxLoopQueries {
		return false
	}
	f.config.Suspect()
	return !f.config.IsOwn(s.Addr.Addr())
}

// suspectLoop handles a question without an answer that had n waiters. One waiter may be the
// server itself: if a question comes back through other servers, this is the only sign.
func (f *Forward) suspectLoop(n int) {
	if n > 1 {
		f.config.Suspect()
	}
}

// loopResponse returns the response to a question that came back.
func loopResponse(q *dnsserver.Query) *dns.Msg {
	m := new(dns.Msg).SetRcode(q.Msg, dns.RcodeRefused)
	m.Extra = []dns.RR{&dns.OPT{
		Hdr:    dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT},
		Option: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeOther, ExtraText: "forwarding loop: this query is already in progress here"}},
	}}
	return m
}

// errInternal is the error of a question whose processing panicked.
var errInternal = errors.New("internal error")

// recovered recovers a panic and calls failed with an error. Defer it where a panic may end at most
// one question.
func (f *Forward) recovered(failed func(error)) {
	if p := recover(); p != nil {
		f.panicked(p)
		failed(errInternal)
	}
}

// panicked counts and logs p, the value that recover returned. Only a deferred function may call
// it.
func (f *Forward) panicked(p any) {
	f.panics.Caught(f.config.Log, "asking a nameserver panicked", journal.QueryPanic, p)
}

// noteRoute adds the servers of the route to the trace.
func noteRoute(t *dnsserver.Trace, r *route) {
	if t == nil || r == nil {
		return
	}
	var servers []string
	for _, s := range r.servers {
		servers = append(servers, s.Server.String()+" ("+string(s.State())+")")
	}
	t.Note("the route " + r.Domain.String() + " leads to " + strings.Join(servers, ", "))
}

// note adds a step to the trace of a flight that has not ended. The trace belongs to the query
// that began the flight. A query that joins it later sees no steps.
func (fl *flight) note(words ...string) {
	if fl.trace != nil && !fl.isFinished {
		fl.trace.Note(strings.Join(words, " "))
	}
}

// noteTry notes a query that is about to be sent.
func (fl *flight) noteTry(t *try) {
	if fl.trace == nil || fl.isFinished {
		return
	}
	words := []string{"asks", t.to.Server.String(), "over"}
	switch {
	case t.to.tls != nil:
		words = append(words, "TLS")
	case t.conn != nil:
		words = append(words, "TLS (opportunistic)")
	case t.stop != nil:
		words = append(words, "TCP")
	default:
		words = append(words, "UDP")
	}
	for _, way := range []struct {
		is   bool
		word string
	}{{t.again, "again"}, {t.noEDNS, "without EDNS"}, {t.isParallel, "beside UDP"}, {t.isProbe, "to check whether it is back"}} {
		if way.is {
			words[len(words)-1] += ","
			words = append(words, way.word)
		}
	}
	fl.note(words...)
}

// noteOutcome notes a result that is not the answer.
func (fl *flight) noteOutcome(o outcome) {
	if fl.trace == nil {
		return
	}
	text := "needs a different query"
	switch {
	case o.isUnreadable:
		text = "sent an unreadable response"
	case o.isInvalid:
		text = "sent an invalid response"
	case o.err != nil || o.msg != nil:
		text = "fails: " + o.reason()
	}
	fl.note(o.to.Server.String(), text)
}

func (fl *flight) noteAnswer(t *try, l flightResult) {
	if fl.trace == nil {
		return
	}
	if l.msg == nil {
		l.msg = &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: exchange.Rcode(l.wire.Message)}}
	}
	fl.note(t.to.Server.String(), "answers", dns.RcodeToString[l.msg.Rcode])
}
