package supervise

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

// Signals receives the signals that the process handles. Signals before Run wait for it. One signal
// of each kind is kept, and stands for later ones.
type Signals struct {
	reload chan os.Signal // SIGHUP
	report chan os.Signal // SIGUSR1
	forget chan os.Signal // SIGUSR2
	stop   chan os.Signal // SIGTERM, SIGINT
	caught bool           // the signals are caught with CatchSignals
}

// CatchSignals must be the first call of a daemon. Until then a SIGHUP kills the process, and a log
// rotation does not check whether the daemon is ready. (This leaves the start of the Go runtime,
// 2.5 ms for node-dns, which os/signal cannot cover.)
func CatchSignals() *Signals {
	s := &Signals{
		reload: make(chan os.Signal, 1), report: make(chan os.Signal, 1), forget: make(chan os.Signal, 1), stop: make(chan os.Signal, 1), caught: true,
	}
	signal.Notify(s.reload, unix.SIGHUP)
	signal.Notify(s.report, unix.SIGUSR1)
	signal.Notify(s.forget, unix.SIGUSR2)
	signal.Notify(s.stop, unix.SIGINT, unix.SIGTERM)
	return s
}

// release restores the default actions of the signals.
func (s *Signals) release() {
	if s.caught {
		signal.Stop(s.reload)
		signal.Stop(s.report)
		signal.Stop(s.forget)
		signal.Stop(s.stop)
	}
}

// endAtOnce restores the default action of SIGTERM and SIGINT, so that a second one ends the
// process at once instead of waiting for queries in flight. The other signals stay caught, because
// their default action would end the process too, which is not their purpose.
func (s *Signals) endAtOnce() {
	if s.caught {
		signal.Reset(unix.SIGINT, unix.SIGTERM)
		signal.Ignore(unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	}
}

// stops ends the tasks at the first SIGTERM or SIGINT, even during a reload.
func (r *runner) stops(ctx context.Context) error {
	select {
	case <-ctx.Done():
		r.notify(daemon.SdNotifyStopping)
		return nil
	case sig := <-r.Signals.stop:
		r.Log.Info("stopping", "signal", sig.String(), journal.Stopping.Attr())
		r.notify(daemon.SdNotifyStopping)
		r.Signals.endAtOnce()
		return errStopped
	}
}

// handleSignals handles the signals that do not end the process, one after the other.
func (r *runner) handleSignals(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.Signals.reload:
			r.reload(ctx)
		case <-r.Signals.report:
			r.Report()
		case <-r.Signals.forget:
			r.Forget()
		}
	}
}

func (r *runner) reload(ctx context.Context) {
	if r.Reload == nil {
		return
	}
	r.notify(reloading())
	err := r.Reload(ctx)
	if ctx.Err() != nil {
		return // stopping was already reported
	}
	if err != nil {
		r.Log.Error("reload failed", "error", err, journal.ReloadFailed.Attr())
	} else {
		r.Log.Info("reloaded")
	}
	r.notify(daemon.SdNotifyReady)
}

// notify sends a state. Only the first of several failures is logged.
func (r *runner) notify(state string) {
	switch err := r.Notify(state); {
	case err != nil && !r.unheard.Swap(true):
		r.Log.Warn("service manager", "error", err)
	case err == nil && r.unheard.Swap(false):
		r.Log.Info("the service manager reads notifications again")
	}
}

// reloading returns the notification with the timestamp that systemd 253 and later require
// (sd_notify(3), Type=notify-reload).
func reloading() string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return daemon.SdNotifyReloading
	}
	return daemon.SdNotifyReloading + "\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10)
}

// notifySystemd is sd_notify(3). go-systemd's socket is one of Go's poller, which wakes up twice
// for each notification.
func notifySystemd(state string) error {
	if err := OpenStore().send(state); !errors.Is(err, errNoStore) {
		return err
	}
	return nil
}

// backoff computes the pause before a task is restarted.
type backoff struct{ last time.Duration }

const (
	firstPause = 100 * time.Millisecond
	longPause  = 30 * time.Second
	// healthy is the running time after which the next failure counts as the first.
	healthy = time.Minute
)

func (b *backoff) next(ran time.Duration) time.Duration {
	if b.last == 0 || ran >= healthy {
		b.last = firstPause
	} else {
		b.last = min(2*b.last, longPause)
	}
	return b.last
}

// Wake wakes the task that receives from a channel with a buffer of one. It never blocks: one
// pending message stands for all later ones.
func Wake(task chan<- struct{}) {
	select {
	case task <- struct{}{}:
	default:
	}
}

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
