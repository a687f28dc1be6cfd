package dbusconn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestMisses(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	missed := fmt.Errorf("asking NetworkManager: %w", context.DeadlineExceeded)
	gone := errors.New("asking NetworkManager: no such name")
	const text, late = "asking NetworkManager: context deadline exceeded", "; the last answer came at 2026-11-22T12:00:00Z"
	for _, row := range []struct {
		name      string
		outcomes  []error // one second apart, from noon on
		problem   string
		tolerated bool
		timeout   time.Duration // of the next query, if the first has one second
	}{
		{"an answer", []error{nil}, "", false, time.Second},
		{"one miss after an answer", []error{nil, missed}, "", true, 2 * time.Second},
		{"two", []error{nil, missed, missed}, "", true, 4 * time.Second},
		{"three", []error{nil, missed, missed, missed}, text + late, false, time.Second},
		{"a fourth does not change the text", []error{nil, missed, missed, missed, missed}, text + late, false, time.Second},
		{"three without an earlier answer", []error{missed, missed, missed}, text + "; no answer so far", false, time.Second},
		{"an answer resets the count", []error{missed, missed, nil, missed, missed}, "", true, 4 * time.Second},
		{"a refusal resets the count", []error{missed, missed, gone, missed}, "", true, 2 * time.Second},
		{"a refusal is reported at once", []error{nil, gone}, gone.Error(), false, time.Second},
		{"a refusal keeps the time of the last answer", []error{nil, gone, missed, missed, missed}, text + late, false, time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			var m Misses
			for i, err := range row.outcomes {
				m = m.After(err, noon.Add(time.Duration(i)*time.Second))
			}
			last := row.outcomes[len(row.outcomes)-1]
			problem := m.Problem(last)
			if text := fmt.Sprint(problem); text != row.problem && (problem != nil || row.problem != "") {
				t.Errorf("problem %q, want %q", text, row.problem)
			}
			if problem != nil && !errors.Is(problem, last) {
				t.Errorf("%v does not wrap %v", problem, last)
			}
			if m.IsTolerated() != row.tolerated || m.Timeout(time.Second) != row.timeout {
				t.Errorf("tolerated %v, next timeout %v", m.IsTolerated(), m.Timeout(time.Second))
			}
		})
	}
}

func TestRetry(t *testing.T) {
	const first, reserve = 700 * time.Millisecond, time.Second
	gone := errors.New("gone")
	for _, row := range []struct {
		name   string
		budget time.Duration // of the whole program; 0 for no limit
		hangs  int           // number of calls that miss their deadline
		err    error         // of the later calls
		calls  int
		took   time.Duration
		want   string
	}{
		{"answers", 3 * time.Second, 0, nil, 1, 0, "<nil>"},
		{"misses once", 3 * time.Second, 1, nil, 2, first, "<nil>"},
		{"misses until the deadline", 3 * time.Second, 9, nil, 2, 2 * time.Second, "context deadline exceeded (2 tries)"},
		{"misses three, with time to spare", time.Hour, 9, nil, 3, 7 * first, "context deadline exceeded (3 tries)"},
		{"no deadline", 0, 9, nil, 3, 7 * first, "context deadline exceeded (3 tries)"},
		{"is gone", 3 * time.Second, 0, gone, 1, 0, "gone"},
		{"gone after a miss", 3 * time.Second, 1, gone, 2, first, "gone"},
		{"no time for another call", 2*first + reserve - 1, 9, nil, 1, first, "context deadline exceeded"},
		{"less time than one call", 100 * time.Millisecond, 9, nil, 1, 100 * time.Millisecond, "context deadline exceeded"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if row.budget > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.budget)
					defer cancel()
				}
				calls, start := 0, time.Now()
				err := Retry(ctx, first, reserve, func(ctx context.Context) error {
					if calls++; calls > row.hangs {
						return row.err
					}
					<-ctx.Done()
					return ctx.Err()
				})
				if took := time.Since(start); calls != row.calls || took != row.took || fmt.Sprint(err) != row.want {
					t.Errorf("%d calls in %v: %v", calls, took, err)
				}
			})
		})
	}
}
