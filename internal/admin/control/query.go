package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

const queryPath = "/v1/query"

// Question is one DNS question, answered like a client's.
type Question struct {
	Name  string `json:"name"`            // fully qualified, in zone file format
	Type  string `json:"type"`            // empty means A
	Class string `json:"class,omitempty"` // empty means IN
	// Namespace requests the answer for a pod of this namespace whose search list the node walks
	// (autopath). If it is empty, no list is walked.
	Namespace string `json:"namespace,omitempty"`
	Trace     bool   `json:"trace,omitempty"` // whether to include the steps to the answer
	// As is the client to answer for: its address, or NAMESPACE/NAME of a pod on this node. That
	// client's limits apply, and its search list is walked. If it is empty, no limits apply. For
	// admins only.
	As     string `json:"as,omitempty"`
	Fresh  bool   `json:"fresh,omitempty"`  // bypass the cache, which does not store the answer; for admins only
	DNSSEC bool   `json:"dnssec,omitempty"` // request signatures: the DO bit, RFC 3225
	CD     bool   `json:"cd,omitempty"`     // disable validation: the CD bit, RFC 4035 section 3.2.2
}

// Answer is the answer that a client would get, with its source.
type Answer struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Class      string          `json:"class"`
	Rcode      string          `json:"rcode"`
	Flags      []string        `json:"flags"`  // in dig's notation
	Answer     []Record        `json:"answer"` // in zone file format
	Authority  []Record        `json:"authority"`
	Errors     []ExtendedError `json:"extendedErrors"`
	By         By              `json:"by"`
	Failure    string          `json:"failure,omitempty"` // reason why there is no response; Rcode is empty then
	Took       time.Duration   `json:"tookNanoseconds"`
	Trace      []TraceStep     `json:"trace,omitempty"`  // set if Question.Trace is
	Client     *Client         `json:"client,omitempty"` // set if Question.As is
}

// TraceStep is one step in finding an answer.
type TraceStep struct {
	At   time.Duration `json:"atNanoseconds"` // since the question was sent
	What string        `json:"what"`
}

// Client is the client that a question was answered for.
type Client struct {
	Address string `json:"address"`
	Pod     string `json:"pod,omitempty"`     // NAMESPACE/NAME
	Refused bool   `json:"refused,omitempty"` // by access rules or limits; extendedErrors hold the reason
}

// Record is a resource record in zone file format.
type Record struct {
	Name  string `json:"name"`
	TTL   uint32 `json:"ttl"`
	Class string `json:"class"`
	Type  string `json:"type"`
	Data  string `json:"data"`
}

// ExtendedError is an extended DNS error (RFC 8914).
type ExtendedError struct {
	Code uint16 `json:"code"`
	Name string `json:"name"` // name in the IANA registry
	Text string `json:"text,omitempty"`
}

// By describes what answered.
type By struct {
	// Who is cluster, upstream, local data, localhost, itself, rule or nobody; or server if a
	// server was queried directly.
	Who    string        `json:"who"`
	Server string        `json:"server,omitempty"` // nameserver that sent the answer; empty for our own answers
	Target string        `json:"target,omitempty"` // server that was asked for the target of one of our aliases
	State  string        `json:"state,omitempty"`  // of Server: up, down, unknown
	RTT    time.Duration `json:"rttNanoseconds,omitempty"`
	// Transport is the transport used for Server if dnsOverTLS is opportunistic or the server was
	// queried directly. It is empty for cached answers.
	Transport string        `json:"transport,omitempty"`
	Domain    string        `json:"domain,omitempty"` // domain of the matching route
	Source    string        `json:"source,omitempty"` // source of that route's configuration
	Cached    bool          `json:"cached"`
	Age       time.Duration `json:"ageNanoseconds,omitempty"` // age of a cached answer
	Stale     bool          `json:"stale"`                    // whether the answer had expired
	Walked    bool          `json:"walked,omitempty"`         // whether the node walked the pod's search list
}

// Query sends a question to the daemon that listens on path.
func Query(ctx context.Context, path string, question Question) (Answer, error) {
	return ask[Answer](ctx, path, queryPath, question)
}

// Message returns the DNS query for the question, or an error that describes what is wrong with the
// question.
func (q Question) Message() (*dns.Msg, error) {
	if _, ok := dns.IsDomainName(q.Name); !ok || q.Name == "" {
		return nil, fmt.Errorf("%q: expected a name", q.Name)
	}
	qtype, class := dns.TypeA, uint16(dns.ClassINET)
	if q.Type != "" {
		var ok bool
		if qtype, ok = dnswire.ParseType(q.Type); !ok {
			return nil, fmt.Errorf("unknown record type %q", q.Type)
		}
	}
	if q.Class != "" {
		var ok bool
		if class, ok = dns.StringToClass[strings.ToUpper(q.Class)]; !ok || class == dns.ClassNONE {
			return nil, fmt.Errorf("unknown class %q", q.Class)
		}
	}
	m := new(dns.Msg).SetQuestion(dns.Fqdn(q.Name), qtype)
	m.Question[0].Qclass = class
	m.AuthenticatedData = true // ask the server to report DNSSEC validation: RFC 6840 section 5.7
	m.CheckingDisabled = q.CD
	return m.SetEdns0(exchange.DefaultUDPSize, q.DNSSEC), nil // EDNS(0), so that the server can send extended errors
}

// NewAnswer converts a response for display. The response may be nil if none was sent. The caller
// sets By and Took.
func NewAnswer(question dns.Question, response *dns.Msg) Answer {
	a := Answer{
		APIVersion: APIVersion, Kind: "Answer",
		Name: question.Name, Type: dnswire.TypeText(question.Qtype), Class: dns.Class(question.Qclass).String(),
		Flags: []string{}, Answer: []Record{}, Authority: []Record{}, Errors: []ExtendedError{},
	}
	if response == nil {
		return a
	}
	a.Rcode = dnswire.RcodeText(response.Rcode)
	a.Flags = flagsOf(response.MsgHdr)
	a.Answer, a.Authority = recordTexts(response.Answer), recordTexts(response.Ns)
	a.Errors = append(a.Errors, ErrorsOf(response)...)
	return a
}

// ErrorsOf returns the Extended DNS Errors of a response (RFC 8914).
func ErrorsOf(response *dns.Msg) (all []ExtendedError) {
	opt := response.IsEdns0()
	if opt == nil {
		return nil
	}
	for _, option := range opt.Option {
		if e, ok := option.(*dns.EDNS0_EDE); ok {
			all = append(all, ExtendedError{Code: e.InfoCode, Name: dns.ExtendedErrorCodeToString[e.InfoCode], Text: e.ExtraText})
		}
	}
	return all
}

// flagsOf returns the header flags in dig's notation.
func flagsOf(h dns.MsgHdr) []string {
	flags := []string{}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"qr", h.Response},
		{"aa", h.Authoritative},
		{"tc", h.Truncated},
		{"rd", h.RecursionDesired},
		{"ra", h.RecursionAvailable},
		{"ad", h.AuthenticatedData},
		{"cd", h.CheckingDisabled},
	} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	return flags
}

// recordTexts splits the text form of each record into its fields. Unprintable characters are
// escaped.
func recordTexts(rrs []dns.RR) []Record {
	all := []Record{}
	for _, rr := range rrs {
		parts := strings.SplitN(dnswire.Readable(rr).String(), "\t", 5)
		if len(parts) < 5 {
			parts = append(parts, make([]string, 5-len(parts))...)
		}
		all = append(all, Record{Name: parts[0], TTL: rr.Header().Ttl, Class: parts[2], Type: parts[3], Data: parts[4]})
	}
	return all
}

// writeTrace prints the steps to each answer that has some, and the step that took most of the
// time.
func (s Step) writeTrace(p *page) {
	for _, a := range s.Answers {
		if len(a.Trace) == 0 {
			continue
		}
		p.comment("steps to %s %s, in %s:", a.Name, a.Type, milliseconds(a.Took))
		for _, step := range a.Trace {
			p.hanging(fmt.Sprintf(";; %10s  %s", milliseconds(step.At), step.What), ";;             ")
		}
		if what, wait := a.longestWait(); wait >= worthTelling {
			p.comment("most of the time: %s of %s, after %q", milliseconds(wait), milliseconds(a.Took), what)
		}
	}
}

// worthTelling is the minimum time for naming the longest step.
const worthTelling = 5 * time.Millisecond

// longestWait returns the step with the longest time until the next one, or until the answer.
func (a Answer) longestWait() (what string, longest time.Duration) {
	for i, step := range a.Trace {
		end := a.Took
		if i+1 < len(a.Trace) {
			end = a.Trace[i+1].At
		}
		if wait := end - step.At; wait > longest {
			what, longest = step.What, wait
		}
	}
	return what, longest
}

// tracer records the steps of a question that this process sends. A nil tracer records nothing.
type tracer struct {
	began time.Time
	steps []TraceStep
}

func newTracer(question Question) *tracer {
	if !question.Trace {
		return nil
	}
	return &tracer{began: time.Now()}
}

func (t *tracer) note(format string, args ...any) {
	if t != nil {
		t.steps = append(t.steps, TraceStep{time.Since(t.began), fmt.Sprintf(format, args...)})
	}
}

func (t *tracer) noted() []TraceStep {
	if t == nil {
		return nil
	}
	return t.steps
}
