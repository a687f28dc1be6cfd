package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// firstOfSystemd is the first exit status that is systemd's own: it could not run the program (systemd.exec(5), "PROCESS
// EXIT CODES").
const firstOfSystemd = 200

// skipped finds the commands that systemd could not run since a unit began to start. entries are systemd's own about
// that, with the id spawnFailed. A command that was skipped for its prefix "-" has status 0 by the manager, so the journal
// is asked first.
func skipped(unit string, began time.Time, commands []dbusconn.Command, entries []logEntry) []Skipped {
	var all []Skipped
	for _, entry := range entries {
		path, why := entry["EXECUTABLE"], strings.TrimPrefix(entry["MESSAGE"], unit+": ")
		if path == "" || why == "" || entry.time().Before(began) {
			continue
		}
		i := slices.IndexFunc(all, func(s Skipped) bool { return s.Path == path })
		if i < 0 {
			all = append(all, Skipped{Unit: unit, Path: path})
			i = len(all) - 1
		}
		s := &all[i]
		s.Times, s.Ignored = s.Times+1, strings.Contains(why, "skipping")
		if !slices.Contains(s.Why, why) {
			s.Why = append(s.Why, why)
		}
	}
	for _, c := range commands {
		isKnown := func(s Skipped) bool { return s.Path == c.Path }
		if c.Signal || c.Status < firstOfSystemd || c.Started.Before(began) || slices.ContainsFunc(all, isKnown) {
			continue
		}
		all = append(all, Skipped{Unit: unit, Path: c.Path, Times: 1, Why: []string{
			fmt.Sprintf("%s ended with status %d, which is systemd's own: it could not run the program", c.Setting, c.Status),
		}})
	}
	return all
}

// checkCommands judges whether systemd runs the commands of our units. The prefix "-" of a command hides that it could not
// be run: systemctl stop node-dns once left nodes without DNS, because SELinux kept systemd from the program that restores
// /etc/resolv.conf.
func checkCommands(s Snapshot) []Finding {
	if s.Units == nil && len(s.Skipped) == 0 {
		return nil
	}
	var found []Finding
	for _, c := range s.Skipped {
		what := fmt.Sprintf("systemd cannot run %s for %s", c.Path, c.Unit)
		if filepath.Base(c.Path) == filepath.Base(hookProgram) {
			what += ": /etc/resolv.conf is not written at a start and not given back at a stop"
		}
		details := slices.Clone(c.Why)
		if c.Times > len(c.Why) {
			details = append(details, fmt.Sprintf("%d times since the unit began to start", c.Times))
		}
		if c.Ignored {
			details = append(details, "systemd went on as if it had been run")
		}
		found = append(found, fail(what, s.fixOfCommand(c), oneLine(details)...))
	}
	return orFine(found, "systemd could run every command of node-dns's units")
}

func (s Snapshot) fixOfCommand(c Skipped) string {
	switch {
	case strings.HasSuffix(c.Why[0], "No such file or directory"):
		return "install the package node-dns again"
	case s.SELinux.Mode.IsOn():
		return "ls -lLZ " + c.Path + " shows its mode and label; " + relabel(hookFiles) + "; systemctl restart node-dns"
	}
	return "ls -lL " + c.Path + ": it takes mode 0755, on a file system that is not mounted noexec; then systemctl restart node-dns"
}
