package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

const (
	daemonUnit     = "node-dns.service"
	applyPath      = "node-dns-apply.path"
	applyUnit      = "node-dns-apply.service"
	managerUnit    = "NetworkManager.service"
	dispatcherUnit = "NetworkManager-dispatcher.service"
	resolvedUnit   = "systemd-resolved.service"
)

func (s Snapshot) isDenied() bool { return errors.Is(s.StatusErr, os.ErrPermission) }

func checkDaemon(s Snapshot) []Finding {
	switch {
	case s.Status != nil:
		return s.running()
	case s.isDenied():
		return []Finding{warn("node-dns runs, but this user may not open its control socket", "run this as root")}
	case errors.Is(s.StatusErr, control.ErrNotRunning):
		unit, known := s.Units[daemonUnit]
		return []Finding{notRunning(unit, known, s.Log)}
	}
	why := plain(s.StatusErr)
	if errors.Is(s.StatusErr, context.DeadlineExceeded) || errors.Is(s.StatusErr, os.ErrDeadlineExceeded) {
		why = fmt.Errorf("no answer within %v", patience)
	}
	return []Finding{fail(fmt.Sprintf("node-dns runs but does not answer on its control socket: %v", why),
		"see journalctl -u node-dns; then systemctl restart node-dns")}
}

// running reports that the daemon runs. checkReports adds the problems it reports.
func (s Snapshot) running() []Finding {
	how := "and is ready"
	switch {
	case s.Status.LeftTo != "":
		how = "and leaves this node to " + s.Status.LeftTo
	case !s.Status.Ready:
		how = "and is not ready"
	}
	return fine("node-dns %s runs (pid %d), %s", s.Status.Version, s.Status.PID, how)
}

// checkReports returns the problems that the daemon reports about itself. It leaves out those that
// other checks cover: nameservers, configuration, host files, listeners and the Kubernetes API.
func checkReports(s Snapshot) []Finding {
	if s.Status == nil {
		return nil
	}
	status := *s.Status
	known := status.DownServers()
	if err := s.faults(); err != nil {
		known = append(known, strings.Split(err.Error(), "\n")...)
	}
	problems := slices.DeleteFunc(slices.Clone(status.Problems), func(p string) bool {
		isKnown := !slices.ContainsFunc(strings.Split(p, "\n"), func(line string) bool { return !slices.Contains(known, line) })
		return isKnown || slices.ContainsFunc(judgedElsewhere, func(begin string) bool { return strings.HasPrefix(p, begin) })
	})
	switch {
	case !status.Ready:
		return []Finding{fail("node-dns is not ready", "node-dns status shows the details", oneLine(problems)...)}
	case len(problems) > 0:
		return []Finding{fail("node-dns reports problems", "node-dns status shows the details", oneLine(problems)...)}
	}
	return nil
}

// judgedElsewhere are the prefixes of reported problems that other checks verify themselves.
var judgedElsewhere = []string{
	leftAlone, "the host's files are not up to date", "the Kubernetes API is not watched", "the Kubernetes API has not been read yet", "rights are missing",
}

func (s Snapshot) faults() error { return errors.Join(s.Host.State.ConfigErr, s.Host.DnsmasqErr) }

// notRunning explains why the daemon does not run, from the state of its systemd unit.
func notRunning(unit migrate.Unit, known bool, log []string) Finding {
	const start = "systemctl enable --now node-dns"
	not := func(why, fix string) Finding { return fail("node-dns is not running: "+why, fix, oneLine(log)...) }
	switch {
	case !known:
		return not("no process listens on its control socket", start)
	case unit.Load == "masked":
		return not(daemonUnit+" is masked", "systemctl unmask node-dns && "+start)
	case unit.Load == "not-found":
		return not("there is no "+daemonUnit, "install the package node-dns, then "+start)
	case unit.Load != "loaded":
		return not(daemonUnit+" cannot be loaded ("+unit.Load+")", "systemd-analyze verify node-dns.service shows the error")
	case unit.Result == "start-limit-hit", unit.Active == "failed" && slices.ContainsFunc(log, isLimitHit):
		return not("it exited so often that systemd no longer restarts it (start-limit-hit)",
			"fix the error in its log; then systemctl reset-failed node-dns && systemctl start node-dns")
	case unit.Active == "failed":
		return not("it failed ("+unit.Result+")", "fix the error in its log; then systemctl start node-dns")
	case unit.Sub == "auto-restart" && unit.Result == "watchdog":
		return not("it hung, and systemd's watchdog stopped it", "systemd restarts it automatically; journalctl -u node-dns shows what it was doing")
	case unit.Sub == "auto-restart":
		return not(fmt.Sprintf("it exits right after its start (%s), %s times so far", unit.Result, unit.Restarts), "fix the error in its log; systemd restarts it automatically")
	case unit.Active == "activating":
		return not("it is starting", "run node-dns wait --for=ready --timeout=60s, then node-dns doctor again")
	case unit.Active == "active", unit.Active == "reloading":
		return not("systemd reports it as running, but no process listens on its control socket", "see journalctl -u node-dns; then systemctl restart node-dns")
	case unit.Active == "deactivating":
		return not("it is stopping", start)
	case unit.File == "disabled":
		return not("it is stopped and not enabled", start)
	}
	return not("it is stopped", "systemctl start node-dns")
}

// isLimitHit reports whether a journal line is from systemd and says that it no longer restarts a
// unit. The unit's Result then still describes the last failed run.
func isLimitHit(line string) bool {
	return strings.Contains(line, "Start request repeated too quickly")
}

func checkMigration(s Snapshot) []Finding {
	if s.Migration == nil || s.Migration.Phase == migrate.Applied {
		return nil
	}
	fix := "node-dns migrate --apply continues it, node-dns migrate --undo reverts it"
	if s.Migration.Phase == migrate.Undoing {
		fix = "node-dns migrate --undo continues it"
	}
	return []Finding{fail(fmt.Sprintf("a migration is unfinished (%s, %d of %d steps)", s.Migration.Phase, s.Migration.Done, len(s.Migration.Steps)), fix)}
}

func checkConfiguration(s Snapshot) []Finding {
	state := s.Host.State
	var found []Finding
	err := s.faults()
	faults := nodeconfig.Faults(err)
	const fix = "correct it and verify it with node-dns check-config; the daemon reloads it automatically"
	switch len(faults) {
	case 0:
	case 1:
		found = append(found, fail(faults[0].Error(), fix))
	default:
		var lines []string
		for _, fault := range faults {
			lines = append(lines, fault.Error())
		}
		found = append(found, fail(fmt.Sprintf("the configuration has %d errors", len(faults)), fix, lines...))
	}
	if err != nil && len(faults) == 0 {
		found = append(found, fail(firstLine(err.Error()), "node-dns check-config"))
	}
	if state.Config.FactsWanted != "" {
		found = append(found, warn(state.Config.FactsWanted, "origin-dns-dispatcher apply, as root, reads it for the daemon"))
	}
	for _, loop := range (named{state.Config, s.Host.Dnsmasq, state.Net, state.Paths.Upstreams, state.Upstreams.Data}).looping() {
		found = append(found, warn(loop, "remove it: names that are only forwarded there do not resolve"))
	}
	if n := len(state.Config.Files) + len(s.Host.Dnsmasq.Files); n > 0 {
		return orFine(found, "configuration: no errors in %s", count(n, "file"))
	}
	return orFine(found, "configuration: no files, all settings have their defaults")
}

// oneLine returns the strings with their line breaks replaced by "; ".
func oneLine(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, strings.ReplaceAll(text, "\n", "; "))
	}
	return all
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
