package forward

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/records"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

var errNotOneQuestion = errors.New("forwarding a query that has not one question")

// Why a query has no response. An error from ServeDNS matches one of them, or the
// error of the client's context.
var (
	ErrNoServers  = errors.New("no nameserver is known")
	ErrNoResponse = errors.New("no nameserver responded")
	ErrShed       = errors.New("too many questions in flight") // or no socket for one more
)

var errFull = errors.New("no room for another question")

// result is what the client gets when no response was final.
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
		return nil, nil, extended(dns.ExtendedErrorCodeOther, "no socket to ask from: "+r.misses[0].reason(), q, ErrShed)
	}
	code, text := explain(r.misses)
	return nil, nil, extended(code, text, q, ErrNoResponse)
}

// extended makes the error for the client and for our log. The text does not repeat
// the question: the client knows it, and dnsserver cuts the text at 128 octets.
func extended(code uint16, text string, q exchange.Question, cause error) error {
	return &dnsserver.ExtendedError{Code: code, Text: text, Err: fmt.Errorf("forwarding %s: %w", q, cause)}
}

// explain puts the misses into an extended DNS error: code 23 (Network Error)
// when every server was out of reach for a reason that the network told, or cannot
// read what it is sent, else 22 (No Reachable Authority). A server is named once, with its last reason.
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
	return extended(dns.ExtendedErrorCodeOther, fmt.Sprintf("already %d questions in flight", limit), q, ErrShed)
}

// gaveUp is for a client whose time, set by its own context, was over first.
func gaveUp(q exchange.Question, r *route, cause error) error {
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

// keepAsked drops the records of a response that do not belong to the question.
func keepAsked(m *dns.Msg, q exchange.Question) { records.KeepAsked(m, q.Name, q.Type, q.DO) }

// internal returns the client's error for a question that panicked.
func internal(fl *flight) error {
	text := "no response"
	if s := fl.first; s != nil {
		text += " from " + s.Server.String()
	}
	return extended(dns.ExtendedErrorCodeOther, text+" ("+errInternal.Error()+")", fl.key.Question(), errInternal)
}

// maxComebacks is how many questions in a row a server may ask us that we are asking it, without an answer to any of ours. It may
// be a client too, and ask for what another client asks for at the same time; but then it answers.
const maxComebacks = 8

// errComeback is of a question that is asked by the server that is asked it.
var errComeback = errors.New("the question came back")

// cameBack is called when a server asks the same question that it is being asked. It reports
// whether the query is refused: the server would wait for itself. The address of a server on this
// host does not tell it from other clients here, so it only raises a suspicion. counted belongs to
// the question, which counts once.
func (f *Forward) cameBack(s *server, counted *bool) (isRefused bool) {
	f.counts.comebacks.Add(1)
	n := s.CameBack(*counted)
	*counted = true
	if n < maxComebacks {
		return false
	}
	f.config.Suspect()
	return !f.config.IsOwn(s.Addr.Addr())
}

// mayHaveComeBack is called for a question without an answer that n waiters have waited for. One of
// them may be the asked server: if a question comes back by way of other servers, there is no other
// sign.
func (f *Forward) mayHaveComeBack(n int) {
	if n > 1 {
		f.config.Suspect()
	}
}

// comeback is the response to a question that came back.
func comeback(q *dnsserver.Query) *dns.Msg {
	m := new(dns.Msg).SetRcode(q.Msg, dns.RcodeRefused)
	m.Extra = []dns.RR{&dns.OPT{
		Hdr:    dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT},
		Option: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeOther, ExtraText: "forwarding loop: you are being asked this"}},
	}}
	return m
}

// errInternal is how what panics fails.
var errInternal = errors.New("internal error")

// recovered is deferred where a panic may end one question at most. It recovers the panic and calls
// failed with an error.
func (f *Forward) recovered(failed func(error)) {
	if p := recover(); p != nil {
		f.panicked(p)
		failed(errInternal)
	}
}

// panicked is called with what recover returned, by the deferred function.
func (f *Forward) panicked(p any) {
	f.panics.Caught(f.config.Log, "asking a nameserver panicked", journal.QueryPanic, p)
}
