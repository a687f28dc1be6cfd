package dnsserver

import (
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

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

// Step is one step to an answer, and the time since the query at which it happened.
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
