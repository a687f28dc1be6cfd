package faultplan

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// patience is how long a client waits before it gives up on a name.
const patience = time.Second

// An Outcome is the result of the questions of a row. Each counts once, as right, late, failed,
// wrong or silent.
type Outcome struct {
	Asked  int `json:"asked"`
	Right  int `json:"right"`  // within 1 s
	Late   int `json:"late"`   // right, but later
	Failed int `json:"failed"` // SERVFAIL, REFUSED and similar
	Wrong  int `json:"wrong"`  // any other answer than the right one
	Silent int `json:"silent"` // no answer within 5 s

	// Of the right ones, those marked stale (EDE 3), or whose question had no EDNS.
	Stale int `json:"stale,omitempty"`
	// The failed ones without EDE although the question had EDNS.
	Unexplained int `json:"unexplained,omitempty"`
	LongestTTL  int `json:"longestTTL,omitempty"` // of the right answers, in seconds

	// Of the right answers or, if there are none, of the failed ones, in milliseconds.
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`

	Upstream int           `json:"upstream"`         // queries to upstream nameservers
	Behind   time.Duration `json:"behind,omitempty"` // maximum delay of a question against the schedule
	Facts    []Fact        `json:"facts,omitempty"`
	Examples []string      `json:"examples,omitempty"` // the first ones that were not right
}

// A Fact is an additional number that a row measures.
type Fact struct {
	Name  string  `json:"name"` // with the unit after a comma
	Value float64 `json:"value"`
}

// String returns the name, the value and its unit.
func (f Fact) String() string {
	name, unit, _ := strings.Cut(f.Name, ", ")
	number := fmt.Sprintf("%.4g", f.Value)
	if f.Value >= 1000 {
		number = fmt.Sprintf("%.0f", f.Value)
	}
	return strings.TrimSpace(name + " " + number + " " + unit)
}

// Fact returns the value with that name, or 0.
func (o Outcome) Fact(name string) float64 {
	for _, f := range o.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// OK returns the percentage of right answers within 1 s.
func (o Outcome) OK() float64 { return 100 * float64(o.Right) / float64(max(o.Asked, 1)) }

// String returns everything as text, with the numbers in the first line.
func (o Outcome) String() string {
	text := fmt.Sprintf("%d asked: %d right, %d late, %d failed (%d unexplained), %d wrong, %d silent; %d stale; %.1f, %.1f, %.1f ms; %d upstream",
		o.Asked, o.Right, o.Late, o.Failed, o.Unexplained, o.Wrong, o.Silent, o.Stale, o.P50, o.P99, o.Worst, o.Upstream)
	for _, f := range o.Facts {
		text += "; " + f.String()
	}
	return strings.Join(append([]string{text}, o.Examples...), "\n\t")
}

// allRight is the promise of most rows. The times are measured but not checked, because the machine
// may be busy.
func allRight(o Outcome) string {
	if o.Asked == 0 || o.Right+o.Late < o.Asked {
		return "not all answers were right"
	}
	return ""
}

// maxExamples is the maximum number of Examples.
const maxExamples = 3

// tally counts answers.
type tally struct {
	mu     sync.Mutex // guards the fields below
	o      Outcome
	right  []time.Duration
	failed []time.Duration
}

func (t *tally) take(a dnstest.Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.o.Asked++
	switch {
	case a.Msg == nil:
		t.o.Silent++
	case a.Fault == "":
		t.rightLocked(a)
		return
	case isFailure(a.Msg):
		t.o.Failed++
		t.failed = append(t.failed, a.Took)
		if opt := a.Msg.IsEdns0(); opt != nil && !hasEDE(opt) {
			t.o.Unexplained++
		}
	default:
		t.o.Wrong++
	}
	if len(t.o.Examples) < maxExamples {
		t.o.Examples = append(t.o.Examples, fmt.Sprintf("%s at %s, after %v: %s", a.Name, a.Asked.Format("05.000"), a.Took.Round(time.Millisecond), a.Fault))
	}
}

func (t *tally) rightLocked(a dnstest.Answer) {
	t.right = append(t.right, a.Took)
	if a.Took > patience {
		t.o.Late++
	} else {
		t.o.Right++
	}
	if opt := a.Msg.IsEdns0(); opt == nil || hasEDE(opt, dns.ExtendedErrorCodeStaleAnswer) {
		t.o.Stale++
	}
	for _, rr := range a.Msg.Answer {
		t.o.LongestTTL = max(t.o.LongestTTL, int(rr.Header().Ttl))
	}
}

// isFailure reports whether a message means that there is no answer.
func isFailure(m *dns.Msg) bool { return m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError }

// hasEDE reports whether there is an extended error (RFC 8914) with one of the given codes, or any
// extended error if no codes are given.
func hasEDE(opt *dns.OPT, codes ...uint16) bool {
	return slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool {
		ede, ok := o.(*dns.EDNS0_EDE)
		return ok && (len(codes) == 0 || slices.Contains(codes, ede.InfoCode))
	})
}

// outcome returns the result of all answers.
func (t *tally) outcome() Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := t.right
	if len(times) == 0 {
		times = t.failed
	}
	slices.Sort(times)
	if n := len(times); n > 0 {
		t.o.P50, t.o.P99, t.o.Worst = milliseconds(times[n/2]), milliseconds(times[n*99/100]), milliseconds(times[n-1])
	}
	return t.o
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
