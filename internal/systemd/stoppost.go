package systemd

import (
	"context"
	"fmt"
	"slices"

	"github.com/godbus/dbus/v5"
)

// A StopPost is one ExecStopPost= line of a unit, with all drop-ins applied.
type StopPost struct {
	Program    string // absolute path of what is run, whatever Argv[0] says (prefix "@")
	Argv       []string
	Privileged bool // prefix "+": it runs as root, outside of the unit's sandbox
}

// execCommand is an element of ExecStopPostEx (org.freedesktop.systemd1(5)): path, argv, flags, then times and results.
type execCommand struct {
	Path           string
	Argv, Flags    []string
	Start, StartM  uint64
	Exit, ExitM    uint64
	PID            uint32
	Code, ExitCode int32
}

// StopPosts returns the commands that systemd runs when a service has ended. systemd before 243 cannot tell.
func (m *Manager) StopPosts(ctx context.Context, unit string) ([]StopPost, error) {
	var path dbus.ObjectPath
	if err := m.call(ctx, managerAt, name+".Manager.GetUnit", unit).Store(&path); err != nil {
		return nil, fmt.Errorf("asking systemd for %s: %w", unit, err)
	}
	var lines []execCommand
	if err := m.get(ctx, path, name+".Service", "ExecStopPostEx", &lines); err != nil {
		return nil, fmt.Errorf("asking systemd for the commands of %s: %w", unit, err)
	}
	commands := make([]StopPost, len(lines))
	for i, line := range lines {
		commands[i] = StopPost{Program: line.Path, Argv: line.Argv, Privileged: slices.Contains(line.Flags, "privileged")}
	}
	return commands, nil
}
