// Package supervise runs the parts of a daemon together: it starts them, restarts those that may fail, and ends all of
// them when one that must not fail does, or when the process is told to.
//
// It is where the process meets its service manager: signals come in here, and sd_notify(3) states go out. What the
// parts do is not its business.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

// Task is one part. Run works until its context ends, and then returns nil.
type Task struct {
	Name string
	Run  func(ctx context.Context) error
	// Restart says that the others can do without it for a while: when it fails, or ends before its time, it is started
	// again after a pause that doubles from 100 ms to 30 s. Without it a failure ends them all.
	Restart bool
}

// Config is what Run runs.
type Config struct {
	Tasks  []Task
	Log    *slog.Logger                    // nil: silent
	Reload func(ctx context.Context) error // what SIGHUP does; an error is logged, and the old state stays. Nil: nothing.
	Report func()                          // what SIGUSR1 does. Nil: nothing.
	Forget func()                          // what SIGUSR2 does. Nil: nothing.
	// Notify sends a state to the service manager. Nil: sd_notify to $NOTIFY_SOCKET, when there is one.
	Notify func(state string) error
	// Check is asked before each sign of life that the service manager's watchdog wants, and has a third of its time. An error, or
	// not coming back, withholds the sign. Nil: we live as long as the process does.
	Check func(ctx context.Context) error
	// Hangs is called when Check has failed, or does not come back in its time, for the first time in a row. It may be called beside all
	// else. Nil: nothing is.
	Hangs func()
	// Watchdog is how long the service manager waits for a sign of life. 0: what $WATCHDOG_USEC says, if anything.
	Watchdog time.Duration
	// Panics counts those of tasks. Nil: nobody asks.
	Panics *journal.Panics
	// Signals are those that arrive. Run lets go of them when it is over. Nil: none are heeded.
	Signals *Signals
}

// errStopped ends the group when a signal asks for it; Run does not return it.
var errStopped = errors.New("told to stop")

// Run starts the tasks, tells the service manager that we are ready, and returns when all of them have ended: nil after
// ctx ended or a signal came, else the first failure. Whatever must be bound is bound before Run is called.
func Run(ctx context.Context, c Config) error {
	r := newRunner(c)
	defer r.Signals.release()
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range c.Tasks {
		group.Go(func() error { return r.run(ctx, task) })
	}
	group.Go(func() error { return r.stops(ctx) })
	group.Go(func() error { return r.heeds(ctx) })
	group.Go(func() error { return r.watches(ctx) })
	r.notify(daemon.SdNotifyReady)
	err := group.Wait()
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// runner is a Config with its zero values settled.
type runner struct{ Config }

func newRunner(c Config) *runner {
	r := &runner{Config: c}
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	if r.Notify == nil {
		r.Notify = notifySystemd
	}
	if r.Check == nil {
		r.Check = func(context.Context) error { return nil }
	}
	if r.Hangs == nil {
		r.Hangs = func() {}
	}
	if r.Watchdog == 0 {
		r.Watchdog = watchdogOfSystemd()
	}
	if r.Panics == nil {
		r.Panics = new(journal.Panics)
	}
	if r.Report == nil {
		r.Report = func() {}
	}
	if r.Forget == nil {
		r.Forget = func() {}
	}
	if r.Signals == nil {
		r.Signals = &Signals{} // whose nil channels say nothing
	}
	return r
}

// run runs one task until ctx ends.
func (r *runner) run(ctx context.Context, task Task) error {
	var pause backoff
	said := ""
	for {
		began := time.Now()
		err := r.guard(ctx, task)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ending is what it was asked for
		}
		if err == nil {
			err = errors.New("ended before its time")
		}
		err = fmt.Errorf("%s: %w", task.Name, err)
		if !task.Restart {
			return err
		}
		ran := time.Since(began)
		wait := pause.next(ran)
		if ran >= healthy || said != err.Error() { // a state change, not every try
			said = err.Error()
			r.Log.Error("task failed, and is tried again", "task", task.Name, "error", err, "again_in", wait, journal.TaskFailed.Attr())
		}
		if !Sleep(ctx, wait) {
			return nil
		}
	}
}

// guard turns a panic of a restartable task into a failure: a watch that trips over odd input must not take the
// nameserver with it. A panic of another task ends the process, as it should: its state cannot be trusted.
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
