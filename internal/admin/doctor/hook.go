package doctor

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/migrate"
)

const (
	hookName    = "99-origin-dns"
	oldHookName = "99-origin-dns.sh"
	hookProgram = "/usr/sbin/origin-dns-dispatcher"
	// hookIdentifier is the hook's SYSLOG_IDENTIFIER.
	hookIdentifier = "origin-dns-dispatcher"
)

// dispatcherDirs are where NetworkManager looks for hooks, the first of which wins where two have one name
// (NetworkManager-dispatcher(8)).
var dispatcherDirs = []string{"/etc/NetworkManager/dispatcher.d", "/usr/lib/NetworkManager/dispatcher.d"}

// checkHook judges whether NetworkManager finds the hook: the first of that name counts.
func checkHook(s Snapshot) []Finding {
	without := s.Host.State.NetworkManager == nil
	switch i := 0; {
	case len(s.Hooks) == 0 && without:
		return fine("NetworkManager does not run, and its hook is not installed: the daemon asks for what the hook does")
	case len(s.Hooks) == 0:
		return []Finding{fail("NetworkManager's hook is not installed ("+filepath.Join(dispatcherDirs[1], hookName)+"): its events change nothing", "install the package node-dns again")}
	case s.Hooks[i].Target == "/dev/null":
		return []Finding{fail("NetworkManager's hook is switched off: "+s.Hooks[i].Path+" leads to /dev/null", "rm "+s.Hooks[i].Path)}
	case !s.Hooks[i].Executable:
		return []Finding{fail("NetworkManager passes over its hook: "+s.Hooks[i].Path+" is not executable", "chmod 755 "+s.Hooks[i].Path)}
	default:
		return fine("NetworkManager's hook is installed (%s)", s.Hooks[i].Path)
	}
}

// checkOldHook looks for the shell script that node-dns replaces. It starts dnsmasq at NetworkManager's next event, and
// writes over what we write.
func checkOldHook(s Snapshot) []Finding {
	var found []Finding
	for _, hook := range s.OldHooks {
		fix := "rm " + hook.Path + "; or node-dns migrate, which takes over from it without an outage"
		if hook.Executable {
			found = append(found, fail(hook.Path+" is still installed: at NetworkManager's next event it starts dnsmasq, and writes over what node-dns writes", fix))
		} else {
			found = append(found, warn(hook.Path+" is still there; it is not executable, so NetworkManager passes over it", fix))
		}
	}
	return orFine(found, "the old hook %s is not installed", oldHookName)
}

// checkUnits judges whether what runs now will do so after the next boot, and whether what must run beside it does.
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
		found = append(found, fail(applyPath+" is masked: what the daemon asks the hook for is not done", "systemctl unmask --runtime "+applyPath+"; systemctl unmask "+applyPath+"; systemctl start "+applyPath))
	case path.Active != "active":
		found = append(found, fail(fmt.Sprintf("%s is %s: what the daemon asks the hook for is not done", applyPath, path.Active), "systemctl restart "+applyPath))
	}
	if dispatcher := s.Units[dispatcherUnit]; s.Units[managerUnit].IsActive() && (dispatcher.Load == "masked" || dispatcher.File == "disabled") {
		word := map[bool]string{true: "masked", false: "not enabled"}[dispatcher.Load == "masked"]
		found = append(found, fail(dispatcherUnit+" is "+word+": NetworkManager's events run no hook", "systemctl unmask "+dispatcherUnit+" && systemctl enable "+dispatcherUnit))
	}
	return orFine(found, "units: %s", unitWords(s.Units))
}

func unitWords(units map[string]migrate.Unit) string {
	text := ""
	for _, name := range []string{daemonUnit, applyPath, dispatcherUnit} {
		unit := units[name]
		if slices.Contains([]string{"", "not-found"}, unit.Load) {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %s", name, unit.Active)
		if unit.File != "" {
			text += "/" + unit.File
		}
	}
	if text == "" {
		return "none of node-dns's is installed"
	}
	return text
}
