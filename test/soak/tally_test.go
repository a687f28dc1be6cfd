package soak

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tally counts the outcomes of questions by the fault that was active when they were sent.
type tally struct {
	mu     sync.Mutex // guards the fields below
	now    string
	ends   time.Time // end of the last outage; zero during an outage or before the first
	outage bool      // whether the active fault is an outage
	stood  time.Time // last time when a stall exceeded the difference between a client's and the node's timeout, so that silence proves nothing
	stall  time.Time // last time when this process had no processor for so long that our upstream nameservers were silent
	order  []string
	counts map[string]*counts
	odd    []string // the first few lost or wrong answers

	paused atomic.Bool // clients over UDP send nothing
}

type counts struct {
	asked, right, failed, wrong, lost int // failed counts SERVFAIL during an announced outage
}

// watch detects when this process, which includes the upstream nameservers, does not get the
// processor. It returns when done is closed.
func (t *tally) watch(done <-chan struct{}) {
	const pause, long, veryLong = 10 * time.Millisecond, 250 * time.Millisecond, time.Second
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
		if time.Since(last) > long {
			t.mu.Lock()
			t.stall = time.Now()
			if t.stall.Sub(last) > veryLong {
				t.stood = t.stall
			}
			t.mu.Unlock()
		}
	}
}

// aftermath is how long after an outage a question may still fail. Servers that are down are probed
// with a pause of at most 2 s.
const aftermath = 3 * time.Second

func newTally() *tally { return &tally{counts: map[string]*counts{}, now: "warming up"} }

// begin sets the active fault. outage means that new names cannot be answered.
func (t *tally) begin(fault string, outage bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outage && !outage {
		t.ends = time.Now()
	}
	t.now, t.outage = fault, outage
}

// ask counts a question and returns the counts for its outcome.
func (t *tally) ask() *counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts[t.now]
	if c == nil {
		c = new(counts)
		t.counts[t.now] = c
		t.order = append(t.order, t.now)
	}
	c.asked++
	return c
}

// outcome is the result of a question.
type outcome int

const (
	right outcome = iota
	failed
	wrong
	lost
)

// ended counts an outcome. A failure counts as failed if the question needed an upstream nameserver
// and none was available or ours was stalled. Otherwise it counts as wrong.
func (t *tally) ended(c *counts, q *question, o outcome, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o == failed && !(q.kind == miss && (t.outage || q.at.Before(t.ends.Add(aftermath)) || q.at.Before(t.stall))) {
		o = wrong
	}
	if o == lost && q.at.Before(t.stood) {
		o = failed
	}
	switch o {
	case right:
		c.right++
		return
	case failed:
		c.failed++
		return
	case wrong:
		c.wrong++
	case lost:
		c.lost++
	}
	if len(t.odd) < 20 {
		t.odd = append(t.odd, fmt.Sprintf("%s %s, asked at %s for %s: %s", t.now, q.kind, q.at.Format("15:04:05.000"), q.name, what))
	}
}

// report returns a table of all counts.
func (t *tally) report() (text string, bad int, asked int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text = fmt.Sprintf("%-34s %9s %9s %8s %6s %6s\n", "fault", "asked", "right", "SERVFAIL", "wrong", "lost")
	for _, name := range t.order {
		c := t.counts[name]
		text += fmt.Sprintf("%-34s %9d %9d %8d %6d %6d\n", name, c.asked, c.right, c.failed, c.wrong, c.lost)
		bad += c.wrong + c.lost
		asked += c.asked
	}
	for _, odd := range slices.Clone(t.odd) {
		text += odd + "\n"
	}
	return text, bad, asked
}
