package dnsserver

import (
	"testing"
	"time"
)

// TestPatience: at a restart with 5,000 queries per second, one in 11,464 was shed while the
// backlog was being answered.
func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	began := time.Now()
	p := newWaitBudget(began)
	for _, step := range []struct {
		name        string
		after       time.Duration // since the start
		left, spend time.Duration
	}{
		{"a backlog", 0, backlog, 1500 * ms},
		{"continues beyond a second", 1500 * ms, 500 * ms, 450 * ms},
		{"within the same second", 1950 * ms, 50 * ms, 60 * ms},
		{"no time left", 2010 * ms, -10 * ms, 0},
		{"a burst", 2500 * ms, burst, 200 * ms},
		{"second burst in one second", 3400 * ms, 0, 0},
		{"burst in the next second", 3500 * ms, burst, 0},
		{"burst after an hour", time.Hour, burst, 0},
	} {
		if got := p.at(began.Add(step.after)); got != step.left {
			t.Errorf("%s: got %v, want %v", step.name, got, step.left)
		}
		p.spend(step.spend)
	}
}
