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

// TestWatchdog: notifications come every half of the timeout, and a third after a failed check began.
func TestWatchdog(t *testing.T) {
	const limit = 3 * time.Second
	hangs := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	fails := func(context.Context) error { return errBroken }
	lives := func(context.Context) error { return nil }
	tests := []struct {
		name   string
		checks []func(context.Context) error // results of the rounds
		want   []string                      // times of the notifications
		logged int                           // lines
	}{
		{"all succeed", slices.Repeat([]func(context.Context) error{lives}, 4), []string{"0s", "1.5s", "3s", "4.5s"}, 0},
		{"one fails", []func(context.Context) error{lives, fails, lives, lives}, []string{"0s", "2.5s", "4s"}, 2},
		{"one does not end in time", []func(context.Context) error{lives, hangs, lives, lives}, []string{"0s", "2.5s", "4s"}, 2},
		{"all later ones fail", []func(context.Context) error{lives, fails, fails, fails}, []string{"0s"}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				start := time.Now()
				var signs []string
				var log bytes.Buffer
				round, hangs := 0, atomic.Int32{}
				config := Config{
					Log: slog.New(slog.NewTextHandler(&log, nil)), Watchdog: limit,
					Notify: func(state string) error {
						if state == "WATCHDOG=1" {
							signs = append(signs, time.Since(start).String())
						}
						return nil
					},
					Hangs: func() { hangs.Add(1) },
					Check: func(ctx context.Context) error {
						if round++; round > len(test.checks) {
							cancel()
							return nil
						}
						return test.checks[round-1](ctx)
					},
				}
				if err := Run(ctx, config); err != nil {
					t.Error(err)
				}
				if !slices.Equal(signs, test.want) {
					t.Errorf("notifications at %v, want %v", signs, test.want)
				}
				if n := hangs.Load(); n != int32(min(test.logged, 1)) {
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
