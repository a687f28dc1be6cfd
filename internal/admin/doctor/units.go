package doctor

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const (
	hookName    = "99-origin-dns"
	oldHookName = "99-origin-dns.sh"
	hookProgram = "/usr/sbin/origin-dns-dispatcher"
	// hookIdentifier is the hook's SYSLOG_IDENTIFIER.
	hookIdentifier = "origin-dns-dispatcher"
)

// dispatcherDirs are the directories of NetworkManager's hooks. If two hooks have the same name,
// the first directory wins (NetworkManager-dispatcher(8)).
var dispatcherDirs = []string{"/etc/NetworkManager/dispatcher.d", "/usr/lib/NetworkManager/dispatcher.d"}

// checkHook checks whether NetworkManager finds the hook. The first hook of that name counts.
func checkHook(s Snapshot) []Finding {
	switch {
	case len(s.Hooks) == 0 && s.Host.State.NetworkManager == nil:
		return fine("NetworkManager does not run and its hook is not installed: the daemon requests the hook's work itself")
	case len(s.Hooks) == 0:
		return []Finding{fail("NetworkManager's hook is not installed ("+filepath.Join(dispatcherDirs[1], hookName)+"): its events have no effect", "reinstall the package node-dns")}
	case s.Hooks[0].Target == "/dev/null":
		return []Finding{fail("NetworkManager's hook is disabled: "+s.Hooks[0].Path+" points to /dev/null", "rm "+termtext.Quote(s.Hooks[0].Path))}
	case !s.Hooks[0].Executable:
		return []Finding{fail("NetworkManager ignores the hook: "+s.Hooks[0].Path+" is not executable", "chmod 755 "+termtext.Quote(s.Hooks[0].Path))}
	default:
		return fine("NetworkManager's hook is installed (%s)", s.Hooks[0].Path)
	}
}

// checkOldHook looks for the shell script that node-dns replaces. At the next event of
// NetworkManager, the script would start dnsmasq and overwrite our files.
func checkOldHook(s Snapshot) []Finding {
	var found []Finding
	for _, hook := range s.OldHooks {
		fix := "rm " + termtext.Quote(hook.Path) + "; or node-dns migrate, which replaces it without an outage"
		if hook.Executable {
			found = append(found, fail(hook.Path+" is still installed: at the next NetworkManager event it starts dnsmasq and overwrites node-dns's files", fix))
		} else {
			found = append(found, warn(hook.Path+" still exists but is not executable, so NetworkManager ignores it", fix))
		}
	}
	return orFine(found, "the old hook %s is not installed", oldHookName)
}

// checkUnits checks whether the running services will also start at the next boot, and whether
// required services run.
func checkUnits(s Snapshot) []Finding {
	if s.Units == nil {
		return nil
	}
	var found []Finding
	daemon, path := s.Units[daemonUnit], s.Units[applyPath]
	if daemon.Load == "loaded" && daemon.File == "disabled" && daemon.IsActive() {
		found = append(found, warn("node-dns.service is not enabled: it does not start at the next boot", "systemctl enable node-dns"))
	}
	switch {
	case !s.isRunning() || daemon.Load != "loaded":
	case path.Load == "masked":
		found = append(found, fail(applyPath+" is masked: the hook does not handle the daemon's requests", "systemctl unmask --runtime "+applyPath+"; systemctl unmask "+applyPath+"; systemctl start "+applyPath))
	case path.Active != "active":
		found = append(found, fail(fmt.Sprintf("%s is %s: the hook does not handle the daemon's requests", applyPath, path.Active), "systemctl restart "+applyPath))
	}
	if manager := s.Units[managerUnit]; manager.Load == "loaded" && !manager.IsActive() && manager.File == "enabled" {
		found = append(found, fail(fmt.Sprintf("%s is enabled but not running (%s): DHCP leases expire and new nameservers are not noticed", managerUnit, manager.Active), "systemctl start NetworkManager"))
	}
	if dispatcher := s.Units[dispatcherUnit]; s.Units[managerUnit].IsActive() && (dispatcher.Load == "masked" || dispatcher.File == "disabled") {
		word := map[bool]string{true: "masked", false: "not enabled"}[dispatcher.Load == "masked"]
		found = append(found, fail(dispatcherUnit+" is "+word+": NetworkManager's events run no hook", "systemctl unmask "+dispatcherUnit+" && systemctl enable "+dispatcherUnit))
	}
	var words []string
	for _, name := range []string{daemonUnit, applyPath, dispatcherUnit} {
		if unit := s.Units[name]; unit.Load != "" && unit.Load != "not-found" {
			words = append(words, strings.TrimSuffix(name+" "+unit.Active+"/"+unit.File, "/"))
		}
	}
	return orFine(found, "units: %s", cmp.Or(strings.Join(words, ", "), "none of node-dns's units is installed"))
}

// firstOfSystemd is the lowest exit status that systemd itself sets when it cannot run a program
// (systemd.exec(5), "PROCESS EXIT CODES").
const firstOfSystemd = 200

// skipped finds the commands that systemd could not run since a unit began to start. entries are
// systemd's messages with the ID spawnFailed. The manager reports status 0 for a command skipped
// because of its prefix "-", so skipped checks the journal first.
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
			fmt.Sprintf("%s ended with status %d, set by systemd because it could not run the program", c.Setting, c.Status),
		}})
	}
	return all
}

// checkCommands checks whether systemd runs the commands of our units. The prefix "-" of a command
// hides that it could not be run. For example, "systemctl stop node-dns" once left nodes without
// DNS, because SELinux kept systemd from running the program that restores /etc/resolv.conf.
func checkCommands(s Snapshot) []Finding {
	if s.Units == nil && len(s.Skipped) == 0 {
		return nil
	}
	var found []Finding
	for _, c := range s.Skipped {
		what := fmt.Sprintf("systemd cannot run %s for %s", c.Path, c.Unit)
		if filepath.Base(c.Path) == filepath.Base(hookProgram) {
			what += ": /etc/resolv.conf is not written at start and not restored at stop"
		}
		details := slices.Clone(c.Why)
		if c.Times > len(c.Why) {
			details = append(details, fmt.Sprintf("%d times since the unit's last start", c.Times))
		}
		if c.Ignored {
			details = append(details, "systemd ignored the failure")
		}
		found = append(found, fail(what, s.fixOfCommand(c), oneLine(details)...))
	}
	return orFine(found, "systemd could run every command of node-dns's units")
}

func (s Snapshot) fixOfCommand(c Skipped) string {
	switch {
	case strings.HasSuffix(c.Why[0], "No such file or directory"):
		return "reinstall the package node-dns"
	case s.SELinux.Mode.IsOn():
		return "ls -lLZ " + termtext.Quote(c.Path) + " shows its mode and label; " + relabel(hookFiles) + "; systemctl restart node-dns"
	}
	return "ls -lL " + termtext.Quote(c.Path) + ": it needs mode 0755 and a file system without noexec; then systemctl restart node-dns"
}
