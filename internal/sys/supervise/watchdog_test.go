package supervise

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchdog: notifications come every half of the timeout, and a third after a failed check
// began.
func TestWatchdog(t *testing.T) {
	const limit = 3 * time.Second
	type check = func(context.Context, time.Duration) error
	hangs := func(_ context.Context, limit time.Duration) error {
		time.Sleep(limit)
		return context.DeadlineExceeded
	}
	late := func(_ context.Context, limit time.Duration) error {
		time.Sleep(limit + time.Millisecond)
		return nil
	}
	fails := func(context.Context, time.Duration) error { return errBroken }
	lives := func(context.Context, time.Duration) error { return nil }
	tests := []struct {
		name   string
		checks []check  // results of the rounds
		want   []string // times of the notifications
		logged int      // lines
		stacks int32    // calls of Hangs
	}{
		{"all succeed", slices.Repeat([]check{lives}, 4), []string{"0s", "1.5s", "3s", "4.5s"}, 0, 0},
		{"one fails", []check{lives, fails, lives, lives}, []string{"0s", "2.5s", "4s"}, 2, 1},
		{"one does not end in time", []check{lives, hangs, lives, lives}, []string{"0s", "2.5s", "4s"}, 2, 1},
		{"all later ones fail", []check{lives, fails, fails, fails}, []string{"0s"}, 1, 1},
		{"one succeeds late", []check{lives, late, lives}, []string{"0s", "2.501s", "3s"}, 0, 1},
		{"two fail, each after a success", []check{fails, lives, fails, lives}, []string{"1s", "3.5s"}, 4, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				start := time.Now()
				var signs []string
				var log bytes.Buffer
				round, stacks := 0, atomic.Int32{}
				config := Config{
					Log: slog.New(slog.NewTextHandler(&log, nil)), Watchdog: limit,
					Notify: func(state string) error {
						if state == "WATCHDOG=1" {
							signs = append(signs, time.Since(start).String())
						}
						return nil
					},
					Hangs: func() { stacks.Add(1) },
					Check: func(ctx context.Context, limit time.Duration) error {
						if round++; round > len(test.checks) {
							cancel()
							return nil
						}
						return test.checks[round-1](ctx, limit)
					},
				}
				r := newRunner(config)
				r.newAlarm = func() (alarm, error) { return newGoAlarm(), nil }
				if err := r.watches(ctx); err != nil {
					t.Error(err)
				}
				if !slices.Equal(signs, test.want) {
					t.Errorf("notifications at %v, want %v", signs, test.want)
				}
				if n := stacks.Load(); n != test.stacks {
					t.Errorf("Hangs was called %d times", n)
				}
				if failed := strings.Contains(log.String(), "condition=hangs"); failed != (test.logged > 0) {
					t.Errorf("the condition is logged: %v\n%s", failed, &log)
				}
				if got := strings.Count(log.String(), "watchdog"); got != test.logged {
					t.Errorf("%d lines, want %d:\n%s", got, test.logged, &log)
				}
			})
		})
	}
}

// TestWatchdogUnheard: a service manager that reads no notifications is logged once. A frozen PID 1
// ("Freezing execution") stays so until the next boot, and filled the journal.
func TestWatchdogUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		sent := 0
		r := newRunner(Config{
			Log: slog.New(slog.NewTextHandler(&log, nil)), Watchdog: 3 * time.Second,
			Notify: func(string) error {
				if sent++; sent == 200 {
					cancel()
				}
				if 10 < sent && sent < 150 {
					return errBroken
				}
				return nil
			},
		})
		r.newAlarm = func() (alarm, error) { return newGoAlarm(), nil }
		if err := r.watches(ctx); err != nil {
			t.Error(err)
		}
		if got := strings.Count(log.String(), "\n"); got != 2 {
			t.Errorf("%d lines, want 2:\n%s", got, &log)
		}
	})
}

// TestWatchdogShows: a journal that does not read the stacks of a daemon that hung for a moment
// delays neither the next notification nor the stop. systemd killed a daemon that had recovered.
func TestWatchdogShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var signs []string
		rounds := 0
		r := newRunner(Config{
			Watchdog: 3 * time.Second,
			Notify: func(string) error {
				signs = append(signs, time.Since(start).String())
				return nil
			},
			Hangs: func() { time.Sleep(time.Minute) },
			Check: func(context.Context, time.Duration) error {
				switch rounds++; rounds {
				case 2:
					return errBroken
				case 5:
					cancel()
				}
				return nil
			},
		})
		r.newAlarm = func() (alarm, error) { return newGoAlarm(), nil }
		if err := r.watches(ctx); err != nil {
			t.Error(err)
		}
		if want := []string{"0s", "2.5s", "4s"}; !slices.Equal(signs, want) {
			t.Errorf("notifications at %v, want %v", signs, want)
		}
		if ended := time.Since(start); ended > 6*time.Second {
			t.Errorf("ended after %v", ended)
		}
		time.Sleep(time.Minute) // the bubble must outlive Hangs
	})
}

// goAlarm is an alarm with the clock of synctest.
type goAlarm struct {
	timer *time.Timer
	ends  context.Context
	end   context.CancelFunc
}

func newGoAlarm() goAlarm {
	a := goAlarm{timer: time.NewTimer(time.Hour)}
	a.ends, a.end = context.WithCancel(context.Background())
	return a
}

func (a goAlarm) Set(after time.Duration) {
	if a.timer.Stop(); after > 0 {
		a.timer.Reset(after)
	}
}

func (a goAlarm) Wait() bool {
	select {
	case <-a.timer.C:
		return true
	case <-a.ends.Done():
		return false
	}
}

func (a goAlarm) Close() { a.end() }

// TestNoWatchdog: no checks run if the service manager has no watchdog, or if the watchdog is for
// another process.
func TestNoWatchdog(t *testing.T) {
	for _, test := range []struct {
		name, usec, pid string
		want            time.Duration
	}{
		{"none", "", "", 0},
		{"ours", "3000000", strconv.Itoa(os.Getpid()), 3 * time.Second},
		{"any process", "3000000", "", 3 * time.Second},
		{"another process", "3000000", "1", 0},
		{"nonsense", "soon", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", test.usec)
			t.Setenv("WATCHDOG_PID", test.pid)
			if got := newRunner(Config{}).Watchdog; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
