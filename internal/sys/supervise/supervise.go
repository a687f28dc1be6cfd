// Package supervise runs the parts of a daemon together. It starts them, restarts those that may
// fail, and ends all of them if one that must not fail does, or if the process is told to stop.
//
// It is the interface to the service manager: it receives signals and sends sd_notify(3) states. It
// does not know what the parts do.
package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

// Task is one part of a daemon. Run works until its context ends, and then returns nil.
type Task struct {
	Name string
	Run  func(ctx context.Context) error
	// Restart means that the other tasks can do without this one for a while. If it fails or ends
	// early, it is restarted after a pause that doubles from 100 ms to 30 s. Without Restart, a
	// failure ends all tasks.
	Restart bool
}

// Config configures Run.
type Config struct {
	Tasks []Task
	Log   *slog.Logger // nil disables logging
	// Reload handles SIGHUP. An error is logged, and the old state stays. It may be nil.
	Reload func(ctx context.Context) error
	Report func() // handles SIGUSR1; may be nil
	Forget func() // handles SIGUSR2; may be nil
	// Notify sends a state to the service manager. nil means sd_notify to $NOTIFY_SOCKET, if set.
	Notify func(state string) error
	// Check is called before each watchdog notification, with a third of the watchdog timeout as
	// its limit, which ctx does not include. The notification is not sent if Check fails or does
	// not return. nil always sends it.
	Check func(ctx context.Context, limit time.Duration) error
	// Hangs is called when Check fails or does not return in time for the first time in a row. It
	// may run concurrently with everything else. It may be nil.
	Hangs func()
	// Watchdog is the service manager's watchdog timeout. 0 means the value of $WATCHDOG_USEC, if
	// set.
	Watchdog time.Duration
	// Panics counts panics in tasks; may be nil.
	Panics *journal.Panics
	// Signals delivers the signals. Run releases them when it ends. nil means that no signals are
	// handled.
	Signals *Signals
}

// errStopped ends the group after a signal. Run does not return it.
var errStopped = errors.New("stopped by a signal")

// Run starts the tasks, reports readiness to the service manager, and returns when all tasks have
// ended: nil if ctx ended or a signal came, otherwise the first failure. Sockets must be bound
// before Run is called.
func Run(ctx context.Context, c Config) error {
	r := newRunner(c)
	defer r.Signals.release()
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range c.Tasks {
		group.Go(func() error { return r.run(ctx, task) })
	}
	group.Go(func() error { return r.stops(ctx) })
	group.Go(func() error { return r.handleSignals(ctx) })
	group.Go(func() error { return r.watches(ctx) })
	r.notify(daemon.SdNotifyReady)
	err := group.Wait()
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// runner is a Config with defaults for zero values.
type runner struct {
	Config
	newAlarm func() (alarm, error) // rawsock.NewAlarm, except in tests
	unheard  atomic.Bool           // the last notification failed
}

func newRunner(c Config) *runner {
	r := &runner{Config: c, newAlarm: newAlarm}
	r.Log = cmp.Or(r.Log, slog.New(slog.DiscardHandler))
	r.Panics = cmp.Or(r.Panics, new(journal.Panics))
	r.Signals = cmp.Or(r.Signals, &Signals{}) // its nil channels never deliver
	r.Watchdog = cmp.Or(r.Watchdog, watchdogOfSystemd())
	if r.Notify == nil {
		r.Notify = notifySystemd
	}
	if r.Check == nil {
		r.Check = func(context.Context, time.Duration) error { return nil }
	}
	if r.Hangs == nil {
		r.Hangs = func() {}
	}
	if r.Report == nil {
		r.Report = func() {}
	}
	if r.Forget == nil {
		r.Forget = func() {}
	}
	return r
}

// run runs one task, with restarts, until ctx ends.
func (r *runner) run(ctx context.Context, task Task) error {
	var pause backoff
	said := ""
	for {
		began := time.Now()
		err := r.guard(ctx, task)
		if ctx.Err() != nil {
			return nil // the service is stopping
		}
		if err == nil {
			err = errors.New("ended unexpectedly")
		}
		err = fmt.Errorf("%s: %w", task.Name, err)
		if !task.Restart {
			return err
		}
		ran := time.Since(began)
		wait := pause.next(ran)
		if ran >= healthy || said != err.Error() { // log state changes, not every attempt
			said = err.Error()
			r.Log.Error("task failed; restarting it", "task", task.Name, "error", err, "again_in", wait, journal.TaskFailed.Attr())
		}
		if !Sleep(ctx, wait) {
			return nil
		}
	}
}

// guard turns a panic of a restartable task into a failure, because a watcher that fails on odd
// input must not end the nameserver. A panic of another task ends the process: its state cannot be
// trusted.
func (r *runner) guard(ctx context.Context, task Task) (err error) {
	if task.Restart {
		defer func() {
			if p := recover(); p != nil {
				r.Panics.Caught(r.Log, "task panicked", journal.TaskPanic, p, "task", task.Name)
				err = fmt.Errorf("panic: %v", p)
			}
		}()
	}
	return task.Run(ctx)
}
