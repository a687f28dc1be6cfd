package soak

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A tally is what became of the questions, by the fault that was on when they were asked.
type tally struct {
	mu     sync.Mutex // guards what follows
	now    string
	ends   time.Time // of the last outage; zero: one is on, or there was none
	outage bool      // the fault that is on is an outage
	stood  time.Time // when that lasted for longer than a client waits after a deadline of the node's: then silence says nothing
	stall  time.Time // when this process last had no processor for so long that an upstream nameserver of ours was silent
	order  []string
	counts map[string]*counts
	odd    []string // what was lost or wrong, the first few
}

type counts struct {
	asked, right, failed, wrong, lost int // failed: SERVFAIL as was announced
}

// watch notes when the machine has no processor for us, as the upstream nameservers are ours; until done is closed.
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

// aftermath is how long after an outage a question may be asked and fail: servers that are down are probed with a pause of at most
// 2 s.
const aftermath = 3 * time.Second

func newTally() *tally { return &tally{counts: map[string]*counts{}, now: "warming up"} }

// begin says which fault is on from now on; outage: that names which nobody has asked for yet cannot be answered.
func (t *tally) begin(fault string, outage bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outage && !outage {
		t.ends = time.Now()
	}
	t.now, t.outage = fault, outage
}

// ask counts a question and returns where its outcome belongs.
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

// An outcome is what became of a question.
type outcome int

const (
	right outcome = iota
	failed
	wrong
	lost
)

// ended counts an outcome. A failure counts as that where the question needed an upstream nameserver and none was to be had, or
// ours stood still; else it is wrong.
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

// report is the table.
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
