package supervise

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

// A check comes every half of the watchdog timeout (sd_watchdog_enabled(3)) and may take a third of
// it. After one that failed, the next comes a third after its start: systemd counts from the last
// notification, so there is time for a second one.
const (
	roundsPerTimeout = 2
	limitsPerTimeout = 3
)

// watches sends watchdog notifications to the service manager while Check succeeds
// (sd_watchdog_enabled(3)). A Check that does not return withholds the notification too, which is
// the purpose of the watchdog.
func (r *runner) watches(ctx context.Context) error {
	every, limit := r.Watchdog/roundsPerTimeout, r.Watchdog/limitsPerTimeout
	if limit <= 0 {
		return nil
	}
	next := time.NewTimer(0)
	defer next.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		start := time.Now()
		pause := every
		if said = r.check(ctx, limit, said); said != "" {
			pause = limit
		}
		next.Reset(time.Until(start.Add(pause)))
	}
}

// check runs one round and returns the problem, or "". said is the previous result. Only changes
// are logged.
func (r *runner) check(ctx context.Context, limit time.Duration, said string) string {
	round, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	first := said == ""
	late := time.AfterFunc(limit, func() {
		if first {
			r.Hangs()
		}
	})
	err := r.Check(round)
	isShown := !late.Stop()
	switch {
	case ctx.Err() != nil:
		return said
	case err != nil && err.Error() != said:
		r.Log.Error("the watchdog check failed; the service manager restarts node-dns if it keeps failing",
			"error", err, "limit", r.Watchdog, journal.Hangs.Attr())
		if first && !isShown {
			r.Hangs()
		}
		return err.Error()
	case err != nil:
		return said
	}
	r.notify(daemon.SdNotifyWatchdog)
	if said != "" {
		r.Log.Info("the watchdog check succeeds again")
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
