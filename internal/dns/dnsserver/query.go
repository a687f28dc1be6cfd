package dnsserver

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// parseQuery parses a message that accept let through. If the Query is nil, the response is
// errorReply with FORMERR. Otherwise, if rcode is not NOERROR, it is the rcode of the response, and
// the Handler must not see the query.
//
// Package dns does not parse the client's EDNS options, because it checks the length of options
// that it knows. It rejects the message for a ZONEVERSION without data (RFC 9660), which is valid
// in queries.
func parseQuery(wire []byte, client, local netip.AddrPort, proto Proto) (q *Query, e extension, rcode int) {
	end := questionEnd(wire)
	e, rcode = readExtension(wire, end)
	if rcode == dns.RcodeFormatError {
		return nil, e, rcode
	}
	m := new(dns.Msg)
	if err := m.Unpack(e.withoutOptions(wire, end)); err != nil || len(m.Question) != 1 {
		return nil, e, dns.RcodeFormatError
	}
	q = &Query{Msg: m, Client: client, Local: local, Proto: proto}
	if rcode != dns.RcodeSuccess {
		return q, e, rcode
	}
	if rcode := checkQuestion(m.Question[0]); rcode != dns.RcodeSuccess {
		return q, e, rcode
	}
	if name, err := dnsname.Parse(m.Question[0].Name); err == nil {
		q.Name = name // a qname with other bytes is answered too (RFC 2181 section 11)
	}
	return q, e, dns.RcodeSuccess
}

// checkQuestion rejects questions that are never forwarded. It accepts only the classes IN and CH,
// which asks about the nameserver itself (RFC 4892). It refuses zone transfers, as RFC 5936 section
// 4.2 allows. OPT and NXNAME are not query types (RFC 9824 section 3.5), TKEY and TSIG need keys,
// and MAILB and MAILA are obsolete (RFC 1035 section 3.2.3).
func checkQuestion(question dns.Question) int {
	if question.Qclass != dns.ClassINET && question.Qclass != dns.ClassCHAOS {
		return dns.RcodeNotImplemented
	}
	switch question.Qtype {
	case dns.TypeAXFR, dns.TypeIXFR:
		return dns.RcodeRefused
	case dns.TypeOPT, dns.TypeNXNAME:
		return dns.RcodeFormatError
	case dns.TypeTKEY, dns.TypeTSIG, dns.TypeMAILA, dns.TypeMAILB:
		return dns.RcodeNotImplemented
	}
	return dns.RcodeSuccess
}

// limit returns the maximum size of a response to q. largest is Config.UDPSize.
func (q *Query) limit(largest int) int {
	size := 0
	if opt := q.Msg.IsEdns0(); opt != nil {
		size = int(opt.UDPSize())
	}
	return responseLimit(q.Proto, size, largest)
}

// responseLimit returns the maximum size of a response to a query with the given EDNS size, which
// is 0 without EDNS. Without EDNS, or with a size below 512, it is 512 bytes (RFC 1035 section
// 4.2.1, RFC 6891 section 6.2.3). Over UDP it never exceeds largest.
func responseLimit(proto Proto, size, largest int) int {
	if proto == TCP {
		return dns.MaxMsgSize
	}
	return min(max(size, dns.MinMsgSize), largest)
}

// Domain returns the name that the query is routed by. This is the qname or, if that has bytes
// that no Name has (RFC 2181 section 11 allows any), its nearest ancestor that is a valid Name. So
// such a name below the cluster domain does not leak to the default servers.
func (q *Query) Domain() dnsname.Name {
	if !q.Name.IsZero() {
		return q.Name
	}
	return Domain(dns.Fqdn(q.Msg.Question[0].Name))
}

// Domain parses a fully qualified name. If the name is invalid, it returns the nearest valid
// ancestor.
func Domain(text string) dnsname.Name {
	for offset, end := 0, false; !end; offset, end = dns.NextLabel(text, offset) {
		if name, err := dnsname.Parse(text[offset:]); err == nil {
			return name
		}
	}
	return dnsname.Root()
}

// Onward returns the query for the name that a CNAME chain leads q to, on behalf of the same
// client.
func (q *Query) Onward(name string) *Query {
	m := new(dns.Msg).SetQuestion(name, q.Msg.Question[0].Qtype)
	m.CheckingDisabled = q.Msg.CheckingDisabled
	if opt := q.Msg.IsEdns0(); opt != nil {
		m.SetEdns0(opt.UDPSize(), opt.Do())
	}
	parsed, _ := dnsname.Parse(name) // the zero Name for other bytes, as for a query from a client
	return &Query{Msg: m, Name: parsed, Client: q.Client, Local: q.Local, Proto: q.Proto, Inquiry: q.Inquiry}
}

// Join completes m, whose answer section ends with a CNAME record, with the response for the CNAME
// target. The rcode is that of the target (RFC 6604 section 3). The target's NS records are
// dropped, and m no longer counts as validated.
func Join(m, rest *dns.Msg) {
	m.Rcode, m.Truncated, m.AuthenticatedData = rest.Rcode, rest.Truncated, false
	m.Answer = append(m.Answer, rest.Answer...)
	m.Ns = slices.DeleteFunc(rest.Ns, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeNS })
	m.Extra = nil
	if opt := rest.IsEdns0(); opt != nil {
		m.Extra = []dns.RR{opt}
	}
}

// Inquiry holds the options of an administrator's query.
type Inquiry struct {
	// SkipCache makes the Handler query the nameservers whatever is cached, and keeps their answers
	// out of the cache.
	SkipCache bool
	Trace     *Trace // nil disables tracing
}

// SkipsCache reports whether the query bypasses the cache.
func (q *Query) SkipsCache() bool { return q.Inquiry != nil && q.Inquiry.SkipCache }

// Trace returns the trace to add steps to, or nil if tracing is disabled.
func (q *Query) Trace() *Trace {
	if q.Inquiry == nil {
		return nil
	}
	return q.Inquiry.Trace
}

// maxSteps is the maximum number of steps in a Trace. A name with ten search domains, each tried at
// four servers, takes fewer.
const maxSteps = 256

// Trace records the steps to an answer. Its methods may be called concurrently, even after the
// answer.
type Trace struct {
	began   time.Time
	mu      sync.Mutex // guards the fields below
	steps   []Step
	entered int
	more    int // number of steps dropped beyond maxSteps
}

// Step is one step in finding an answer, and its time since the query arrived.
type Step struct {
	At   time.Duration
	What string
}

// NewTrace returns a Trace for a query that begins now.
func NewTrace() *Trace { return &Trace{began: time.Now()} }

// Note adds a step.
func (t *Trace) Note(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) == maxSteps {
		t.more++
		return
	}
	t.steps = append(t.steps, Step{time.Since(t.began), what})
}

// Enter calls answer for a handler in a chain, and adds a step that this handler answered q, unless
// a nested handler added one.
func (t *Trace) Enter(handler string, q *Query, answer func() (*dns.Msg, error)) (*dns.Msg, error) {
	n := t.enter()
	m, err := answer()
	if t.count() == n {
		question := q.Msg.Question[0]
		t.Note("answered by " + handler + ": " + question.Name + " " + dnswire.TypeText(question.Qtype) + " " + outcomeOf(m, err))
	}
	return m, err
}

func (t *Trace) enter() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entered++
	return t.entered
}

func (t *Trace) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entered
}

// Steps returns the recorded steps and the number of dropped ones.
func (t *Trace) Steps() (steps []Step, more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Step(nil), t.steps...), t.more
}

func outcomeOf(m *dns.Msg, err error) string {
	switch {
	case err != nil:
		return "SERVFAIL"
	case m == nil:
		return "nothing"
	case m.Rcode == dns.RcodeSuccess && len(m.Answer) == 0:
		return "NODATA"
	}
	return dns.RcodeToString[m.Rcode]
}
