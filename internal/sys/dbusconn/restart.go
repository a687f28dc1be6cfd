package dbusconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// jobPoll is how often systemd is asked whether a job has ended. It answers within a millisecond.
const jobPoll = 5 * time.Millisecond

// TryRestart restarts a unit that runs. It returns when that is done, or, with systemd left to carry it out, when ctx ends.
// One that does not run, that systemd does not know, or that a shutdown is about to stop, is left alone.
//
// The unit's count of starts is reset before: systemd leaves a unit stopped that is started more than five times in 10 s
// (StartLimitBurst=).
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
			return nil // it is done, or systemd does it
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jobPoll):
		}
	}
}

// is reports whether systemd answered with this error.
func is(err error, name string) bool {
	var answer dbus.Error
	return errors.As(err, &answer) && answer.Name == name
}
