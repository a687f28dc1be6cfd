package dnsserver

import (
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// Inquiry is what an admin wants to know beside the answer to a question.
type Inquiry struct {
	// SkipCache has the nameservers asked whatever is remembered, and remembers nothing of what they say.
	SkipCache bool
	Trace     *Trace // nil: nothing is noted
}

// SkipsCache reports whether memory has no say in the answer.
func (q *Query) SkipsCache() bool { return q.Inquiry != nil && q.Inquiry.SkipCache }

// Trace is where to note the steps to the answer; nil: nobody wants to know them.
func (q *Query) Trace() *Trace {
	if q.Inquiry == nil {
		return nil
	}
	return q.Inquiry.Trace
}

// maxSteps bounds a Trace. A name that ten of a search list lead to, of which each is asked of four servers, takes fewer.
const maxSteps = 256

// A Trace notes the steps to an answer. Its methods may be called concurrently, also after the answer.
type Trace struct {
	began   time.Time
	mu      sync.Mutex // guards what follows
	steps   []Step
	entered int
	more    int // steps beyond maxSteps
}

// A Step is what was done for an answer, and when, since the question was asked.
type Step struct {
	At   time.Duration
	What string
}

// NewTrace returns a Trace of a question that is asked now.
func NewTrace() *Trace { return &Trace{began: time.Now()} }

// Note notes a step.
func (t *Trace) Note(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) == maxSteps {
		t.more++
		return
	}
	t.steps = append(t.steps, Step{time.Since(t.began), what})
}

// Enter has a Handler of a list answer q by answer, and notes that it did, unless it had another one do so.
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

// Steps are those so far, and how many more there were than are kept.
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
