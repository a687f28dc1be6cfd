package supervise

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

// Signals are the signals that the process heeds. Those that come before Run wait for it; of each kind one does, which
// stands for those after it.
type Signals struct {
	reload chan os.Signal // SIGHUP
	report chan os.Signal // SIGUSR1
	forget chan os.Signal // SIGUSR2
	stop   chan os.Signal // SIGTERM, SIGINT
	caught bool           // they are the process's own
}

// CatchSignals is the first thing that a daemon does: until then a SIGHUP ends the process, and who rotates logs does not
// ask whether the daemon is ready. (What remains is the start of Go's runtime, 2.5 ms for node-dns, in which os/signal
// has no say.)
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

// release lets the signals do again what they do by default.
func (s *Signals) release() {
	if s.caught {
		signal.Stop(s.reload)
		signal.Stop(s.report)
		signal.Stop(s.forget)
		signal.Stop(s.stop)
	}
}

// endAtOnce has a second SIGTERM or SIGINT do what it does by default: who asks twice does not want to wait for the queries
// under way. SIGHUP and those that ask for something else would end the process too, but do not ask for that.
func (s *Signals) endAtOnce() {
	if s.caught {
		signal.Reset(unix.SIGINT, unix.SIGTERM)
		signal.Ignore(unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	}
}

// stops ends the tasks at the first SIGTERM or SIGINT, also while a reload is under way.
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

// heeds does what the signals ask for that do not end it: one after the other.
func (r *runner) heeds(ctx context.Context) error {
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
		return // we stop, and have said so
	}
	if err != nil {
		r.Log.Error("reload failed", "error", err, journal.ReloadFailed.Attr())
	} else {
		r.Log.Info("reloaded")
	}
	r.notify(daemon.SdNotifyReady)
}

func (r *runner) notify(state string) {
	if err := r.Notify(state); err != nil {
		r.Log.Warn("service manager", "error", err)
	}
}

// reloading carries the time that systemd 253 and later ask for (sd_notify(3), Type=notify-reload).
func reloading() string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return daemon.SdNotifyReloading
	}
	return daemon.SdNotifyReloading + "\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10)
}

func notifySystemd(state string) error {
	_, err := daemon.SdNotify(false, state)
	return err
}

// backoff is the pause before a task is started again.
type backoff struct{ last time.Duration }

const (
	firstPause = 100 * time.Millisecond
	longPause  = 30 * time.Second
	// healthy is how long a task must have run for its next failure to count as a first one.
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

// Sleep waits for d, and reports whether ctx let it.
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
