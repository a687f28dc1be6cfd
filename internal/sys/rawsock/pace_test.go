package rawsock

import (
	"testing"
	"time"
)

// TestPace: something is busy from Rate on, and idle again below idleRate.
func TestPace(t *testing.T) {
	now := time.Now()
	p := Pace{since: now}
	for _, step := range []struct {
		name  string
		after time.Duration
		n     int
		busy  bool
	}{
		{"a burst within the window", window / 2, 1000, false},
		{"the end of its window", window / 2, 0, true},
		{"between the rates", time.Second, (Rate + idleRate) / 2, true},
		{"below both", time.Second, idleRate - 1, false},
		{"between the rates again", time.Second, (Rate + idleRate) / 2, false},
		{"above both", time.Second, Rate, true},
		{"silence", window, 0, false},
	} {
		now = now.Add(step.after)
		if p.Add(step.n, now); p.IsBusy() != step.busy {
			t.Errorf("%s: busy %v", step.name, p.busy)
		}
	}
}

// TestThreads: there are no more than were made, and none in nil.
func TestThreads(t *testing.T) {
	two := NewThreads(2)
	if first, second, third := two.Enter(), two.Enter(), two.Enter(); !first || !second || third {
		t.Error("of two threads not two can be taken")
	}
	two.Leave()
	if !two.Enter() {
		t.Error("one that was given back cannot be taken")
	}
	if Threads(nil).Enter() {
		t.Error("nil has threads")
	}
}
