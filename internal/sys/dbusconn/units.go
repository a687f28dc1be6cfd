package dbusconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// A StopPost is one ExecStopPost= line of a unit with all drop-ins applied.
type StopPost struct {
	Program    string // absolute path of the executable, whatever Argv[0] is (prefix "@")
	Argv       []string
	Privileged bool // prefix "+": runs as root outside the unit's sandbox; always true with systemd before 243
}

// privileged is the flag for the prefix "+".
const privileged = "privileged"

// execCommand is an element of ExecStopPostEx (org.freedesktop.systemd1(5)): path, argv and flags,
// followed by times and results.
type execCommand struct {
	Path           string
	Argv, Flags    []string
	Start, StartM  uint64
	Exit, ExitM    uint64
	PID            uint32
	Code, ExitCode int32
}

// StopPosts returns the commands that systemd runs after a service has ended.
func (m *Manager) StopPosts(ctx context.Context, unit string) ([]StopPost, error) {
	path, err := m.unit(ctx, unit)
	if err != nil {
		return nil, err
	}
	var lines []execCommand
	err = m.get(ctx, path, name+".Service", "ExecStopPostEx", &lines)
	if is(err, "org.freedesktop.DBus.Error.UnknownProperty") { // RHEL 8 has systemd 239
		var runs []lastRun
		err = m.get(ctx, path, name+".Service", "ExecStopPost", &runs)
		for _, run := range runs {
			lines = append(lines, execCommand{Path: run.Path, Argv: run.Argv, Flags: []string{privileged}})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("asking systemd for the commands of %s: %w", unit, err)
	}
	commands := make([]StopPost, len(lines))
	for i, line := range lines {
		commands[i] = StopPost{Program: line.Path, Argv: line.Argv, Privileged: slices.Contains(line.Flags, privileged)}
	}
	return commands, nil
}

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
