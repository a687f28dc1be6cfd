package dbusconn

import (
	"context"
	"fmt"
	"slices"
)

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
