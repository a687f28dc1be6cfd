package helper

import (
	"testing"
	"time"
)

func TestFilterWatch(t *testing.T) {
	type tick struct {
		after             time.Duration
		arrived, accepted uint64
	}
	for _, test := range []struct {
		name  string
		ticks []tick
		want  int // index of the tick that finds a filter; -1 if none does
	}{
		{"all pass", []tick{{0, 100, 100}, {time.Second, 300, 300}, {time.Second, 500, 499}}, -1},
		{"nothing arrives", []tick{{0, 0, 0}, {time.Hour, 0, 0}}, -1},
		{"all are dropped", []tick{{0, 5, 1}, {100 * time.Millisecond, 20, 2}}, 1},
		{"only the helper's own pass", []tick{{0, 1, 1}, {100 * time.Millisecond, 8, 2}, {100 * time.Millisecond, 14, 3}}, 2},
		{"one of a hundred is dropped", []tick{{0, 1000, 990}, {time.Second, 2000, 1980}, {time.Second, 3000, 2970}}, -1},
		{"a few are dropped, seldom", []tick{{0, 9, 0}, {time.Second, 9, 0}, {time.Second, 18, 0}}, -1},
		{"a filter appears later", []tick{{0, 1000, 1000}, {time.Second, 2000, 2000}, {time.Second, 2040, 2005}}, 2},
		// New rules count from zero.
		{"the rules change", []tick{{0, 1000, 1000}, {time.Second, 2000, 2000}, {100 * time.Millisecond, 12, 12}}, -1},
		{"the rules change, and a filter drops", []tick{{0, 1000, 1000}, {time.Second, 2000, 2000}, {100 * time.Millisecond, 12, 1}}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var f filterWatch
			now := time.Now()
			got := -1
			for i, tick := range test.ticks {
				now = now.Add(tick.after)
				if f.see(now, passage{tick.accepted, tick.arrived, tick.accepted}) {
					got = i
					break
				}
			}
			if got != test.want {
				t.Errorf("got tick %d, want %d", got, test.want)
			}
			if f.blocks(now) != (got >= 0) || f.blocks(now.Add(filteredFor)) {
				t.Errorf("blocks now: %v, and after the time: %v", f.blocks(now), f.blocks(now.Add(filteredFor)))
			}
		})
	}
}

// TestPassesWhileRead: on a busy machine, 100 packets passed between the reading of two counters.
// They once seemed to be dropped in the next comparison, which ended interception for ten minutes.
func TestPassesWhileRead(t *testing.T) {
	var f filterWatch
	now := time.Now()
	for i, p := range []passage{{1000, 1000, 1000}, {2000, 2000, 2100}, {2100, 2100, 2100}} {
		now = now.Add(filterWindow)
		if f.see(now, p) {
			t.Errorf("found a filter in reading %d", i)
		}
	}
}
