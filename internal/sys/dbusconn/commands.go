package dbusconn

import (
	"context"
	"fmt"
	"time"
)

// A Command is the last run of one command of a service (org.freedesktop.systemd1(5),
// ExecStartPre).
type Command struct {
	Setting string // ExecStartPre, ExecStart, ExecStop or ExecStopPost
	Path    string
	Started time.Time // zero if it has not been run
	Signal  bool      // Status is the signal that ended it
	// Status is the exit status. From 200 on, systemd could not run the command (systemd.exec(5),
	// "PROCESS EXIT CODES").
	Status int
}

// lastRun is an element of ExecStartPre and similar properties.
type lastRun struct {
	Path                            string
	Argv                            []string
	IgnoreFailure                   bool
	Start, StartMono, End, StopMono uint64
	PID                             uint32
	Code, Status                    int32
}

// settings lists the command settings in the order in which systemd runs them.
var settings = []string{"ExecStartPre", "ExecStart", "ExecStop", "ExecStopPost"}

// Commands returns the commands of a service, and the time when its last start began. began is zero
// if the service was not started since systemd loaded it. A service that is not loaded has no
// commands.
func (m *Manager) Commands(ctx context.Context, service string) (commands []Command, began time.Time, err error) {
	path, err := m.unit(ctx, service)
	if is(err, name+".NoSuchUnit") {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	var left uint64
	if err := m.get(ctx, path, name+".Unit", "InactiveExitTimestamp", &left); err != nil {
		return nil, time.Time{}, fmt.Errorf("asking systemd when %s was started: %w", service, err)
	}
	for _, setting := range settings {
		var runs []lastRun
		if err := m.get(ctx, path, name+".Service", setting, &runs); err != nil {
			return nil, time.Time{}, fmt.Errorf("asking systemd for %s of %s: %w", setting, service, err)
		}
		for _, run := range runs {
			const exited = 1 // CLD_EXITED of waitid(2)
			commands = append(commands, Command{
				Setting: setting, Path: run.Path, Started: fromMicroseconds(run.Start), Status: int(run.Status),
				Signal: run.Code != exited && run.Code != 0,
			})
		}
	}
	return commands, fromMicroseconds(left), nil
}

// fromMicroseconds converts a CLOCK_REALTIME value of systemd; 0 becomes the zero time.
func fromMicroseconds(us uint64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(us)).UTC()
}
