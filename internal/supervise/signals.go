package supervise

import (
	"context"
	"os/signal"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// signals does what the signals say: SIGHUP reloads, the first SIGTERM or SIGINT ends the tasks.
func (r *runner) signals(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			r.notify(daemon.SdNotifyStopping)
			return nil
		case sig := <-r.Signals:
			if sig == unix.SIGHUP {
				r.reload(ctx)
				continue
			}
			r.Log.Info("stopping", "signal", sig.String())
			r.notify(daemon.SdNotifyStopping)
			r.endAtOnce()
			return errStopped
		}
	}
}

// endAtOnce has a second SIGTERM or SIGINT do what it does by default: who asks twice does not want to wait for the queries
// under way. SIGHUP would end the process too, but does not ask for that, and comes from whoever rotates logs.
func (r *runner) endAtOnce() {
	if r.received != nil {
		signal.Reset(unix.SIGINT, unix.SIGTERM)
		signal.Ignore(unix.SIGHUP)
	}
}

func (r *runner) reload(ctx context.Context) {
	if r.Reload == nil {
		return
	}
	r.notify(reloading())
	if err := r.Reload(ctx); err != nil {
		r.Log.Error("reload failed", "error", err)
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
