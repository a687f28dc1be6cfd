package rawsock

import (
	"testing"
	"time"
)

// TestPace: a reader is busy from Rate on, and idle again below idleRate.
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

// TestThreads: Enter succeeds as often as allowed, and never for nil.
func TestThreads(t *testing.T) {
	two := NewThreads(2)
	if first, second, third := two.Enter(), two.Enter(), two.Enter(); !first || !second || third {
		t.Error("Enter did not succeed exactly twice")
	}
	two.Leave()
	if !two.Enter() {
		t.Error("Enter failed after Leave")
	}
	if Threads(nil).Enter() {
		t.Error("Enter succeeded for nil")
	}
}
