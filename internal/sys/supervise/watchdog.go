package supervise

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/node-dns/node-dns/internal/sys/journal"
)

// watchdogParts is how many signs of life there are in the time in which the service manager wants one: two may fail to come, as systemd
// counts from the last one and a check that fails takes its time.
const watchdogParts = 3

// watches tells the service manager that we live, as long as Check says so (sd_watchdog_enabled(3)). One that does not come back holds up
// the sign of life too: that is what the watchdog is for.
func (r *runner) watches(ctx context.Context) error {
	every := r.Watchdog / watchdogParts
	if every <= 0 {
		return nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := ""
	for {
		said = r.check(ctx, every, said)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// check does one round, and returns what is wrong; said is what was before. Only a change is logged.
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
		r.Log.Error("the watchdog's check failed: the service manager ends us if that lasts",
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
		r.Log.Info("the watchdog's check succeeds again")
	}
	return ""
}

// watchdogOfSystemd is how long the service manager waits for a sign of life; 0: it waits for none.
func watchdogOfSystemd() time.Duration {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0 // the manager that set such an environment is none that counts
	}
	return limit
}
