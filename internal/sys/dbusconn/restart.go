package dbusconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// jobPoll is the interval at which systemd is queried for the end of a job. It answers within a
// millisecond.
const jobPoll = 5 * time.Millisecond

// TryRestart restarts a running unit. It returns when the restart is done or when ctx ends; systemd
// then completes it. It does nothing if the unit is not running, is unknown to systemd, or is about
// to be stopped by a shutdown.
//
// The unit's start counter is reset before, because systemd does not restart a unit that was
// started more than five times in 10 s (StartLimitBurst=).
func (m *Manager) TryRestart(ctx context.Context, unit string) error {
	if err := m.call(ctx, managerAt, name+".Manager.ResetFailedUnit", unit).Err; err != nil && !is(err, name+".NoSuchUnit") {
		return fmt.Errorf("restarting %s: %w", unit, err)
	}
	err := m.call(ctx, managerAt, name+".Manager.TryRestartUnit", unit, "replace").Err
	switch {
	case is(err, name+".NoSuchUnit"), is(err, name+".UnitMasked"), is(err, name+".TransactionIsDestructive"):
		return nil
	case err != nil:
		return fmt.Errorf("restarting %s: %w", unit, err)
	}
	for {
		if job, err := m.Job(ctx, unit); err != nil || job == NoJob {
			return nil // it is done, or systemd completes it
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jobPoll):
		}
	}
}

// is reports whether systemd returned this error.
func is(err error, name string) bool {
	var answer dbus.Error
	return errors.As(err, &answer) && answer.Name == name
}
