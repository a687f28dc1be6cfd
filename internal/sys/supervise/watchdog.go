package supervise

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// A check comes every half of the watchdog timeout (sd_watchdog_enabled(3)) and may take a third of
// it. After one that failed, the next comes a third after its start: systemd counts from the last
// notification, so there is time for a second one.
const (
	roundsPerTimeout = 2
	limitsPerTimeout = 3
)

// watchdog sends watchdog notifications to the service manager while Check succeeds
// (sd_watchdog_enabled(3)). A Check that does not return withholds the notification too, which is
// the purpose of the watchdog.
//
// An idle daemon does little else. So a round that finds no work uses no timer of Go's runtime and
// no system call that its scheduler knows of: each of these wakes further threads.
type watchdog struct {
	*runner
	limit time.Duration // of one check
	next  alarm         // begins a round
	late  alarm         // expires if a check takes longer than limit
	said  string        // problem that the last round found; empty if none
	shown atomic.Bool   // Hangs was called since the last round that succeeded
	shows atomic.Bool   // Hangs has not returned
}

// alarm is the part of rawsock.Alarm that the watchdog uses.
type alarm interface {
	Set(after time.Duration)
	Wait() bool
	Close()
}

var _ alarm = (*rawsock.Alarm)(nil)

func newAlarm() (alarm, error) { return rawsock.NewAlarm() }

// watches runs the watchdog, if the service manager has one, until ctx ends.
func (r *runner) watches(ctx context.Context) error {
	limit := r.Watchdog / limitsPerTimeout
	if limit <= 0 {
		return nil
	}
	w := &watchdog{runner: r, limit: limit}
	for _, a := range []*alarm{&w.next, &w.late} {
		var err error
		if *a, err = r.newAlarm(); err != nil {
			return fmt.Errorf("creating a timer for the watchdog: %w", err)
		}
		defer (*a).Close()
		defer context.AfterFunc(ctx, (*a).Close)()
	}
	w.run(ctx)
	return nil
}

func (w *watchdog) run(ctx context.Context) {
	var late sync.WaitGroup
	defer late.Wait()
	defer w.late.Close()
	late.Go(func() {
		for w.late.Wait() {
			w.show()
		}
	})
	for ctx.Err() == nil {
		start := time.Now()
		pause := w.Watchdog / roundsPerTimeout
		if w.said = w.check(ctx); w.said != "" {
			pause = w.limit
		}
		if pause = time.Until(start.Add(pause)); pause > 0 {
			w.next.Set(pause)
			w.next.Wait()
		}
	}
}

// show calls Hangs once until a check succeeds. It does not wait: journald may hang too.
func (w *watchdog) show() {
	if w.shown.CompareAndSwap(false, true) && w.shows.CompareAndSwap(false, true) {
		go func() {
			defer w.shows.Store(false)
			w.Hangs()
		}()
	}
}

// check runs one round and returns the problem, or "". Only changes are logged.
func (w *watchdog) check(ctx context.Context) string {
	w.shown.Store(w.said != "")
	w.late.Set(w.limit)
	err := w.Check(ctx, w.limit)
	w.late.Set(0)
	switch {
	case ctx.Err() != nil:
		return w.said
	case err != nil && err.Error() != w.said:
		w.Log.Error("the watchdog check failed; the service manager restarts node-dns if it keeps failing",
			"error", err, "limit", w.Watchdog, journal.Hangs.Attr())
		w.show()
		return err.Error()
	case err != nil:
		return w.said
	}
	w.notify(daemon.SdNotifyWatchdog)
	if w.said != "" {
		w.Log.Info("the watchdog check succeeds again")
	}
	return ""
}

// watchdogOfSystemd returns the service manager's watchdog timeout, or 0 if it has none.
func watchdogOfSystemd() time.Duration {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0 // an invalid environment is ignored
	}
	return limit
}
