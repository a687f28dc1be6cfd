package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/procfs"
)

const (
	systemdDomain = "init_t"
	daemonDomain  = "node_dns_t"
	maxDenials    = 10 // lines of details of a finding
)

// hookFiles are the files of the hook that NetworkManager and systemd execute.
var hookFiles = []string{hookProgram, "/usr/libexec/node-dns", "/usr/lib/NetworkManager/dispatcher.d/" + hookName}

// wrongForHook lists domains that may not write the hook's files. The hook runs in one of them if
// its own label is wrong and no transition takes place.
var wrongForHook = []string{systemdDomain, "NetworkManager_t", "NetworkManager_dispatcher_t"}

// checkSELinux checks the domains of the daemon and the hook.
func checkSELinux(s Snapshot) []Finding {
	se := s.SELinux
	switch {
	case !se.Mode.IsOn() && se.Config.Mode == "":
		return nil
	case !se.Mode.IsOn() && !se.InKernel:
		return fine("SELinux is off: the kernel lacks it or was booted with selinux=0")
	case !se.Mode.IsOn():
		return fine("SELinux is disabled")
	}
	var found []Finding
	restart := "systemctl restart node-dns"
	if len(se.Mislabelled) > 0 {
		restart = relabel(rootsOf(se.Mislabelled)) + " && " + restart
	}
	switch {
	case se.Daemon == systemdDomain:
		found = append(found, s.denied("the daemon runs in systemd's own domain "+systemdDomain+", which may not use node-dns's files: the transition to its domain failed",
			restart+"; if that does not help, update node-dns-selinux"))
	case se.HasModule && se.Daemon != "" && se.Daemon != daemonDomain:
		found = append(found, warn(fmt.Sprintf("the daemon runs as %s, although the policy module %s is installed: SELinux does not confine it as intended", se.Daemon, policyModule), restart))
	}
	for _, hook := range se.Hooks {
		if slices.Contains(wrongForHook, hook.Domain) {
			found = append(found, s.denied(fmt.Sprintf("the hook last ran as %s in %s: that domain may not write /etc/resolv.conf", hook.Domain, hook.Unit), relabel(hookFiles)+"; origin-dns-dispatcher apply"))
		}
	}
	return orFine(found, "%s", se.words())
}

// denied returns a failure, or a warning if SELinux is permissive.
func (s Snapshot) denied(what, fix string, details ...string) Finding {
	if s.SELinux.Mode == procfs.SELinuxPermissive {
		return warn(what, fix, details...)
	}
	return fail(what, fix, details...)
}

func (se SELinux) words() string {
	text := "SELinux is " + string(se.Mode)
	if se.Config.Policy != "" {
		text += ", policy " + se.Config.Policy
	}
	if se.Daemon != "" {
		text += "; the daemon runs as " + se.Daemon
	}
	var hooks []string
	for _, hook := range se.Hooks {
		hooks = append(hooks, hook.Domain+" ("+hook.Unit+")")
	}
	if len(hooks) > 0 {
		text += "; the hook as " + strings.Join(hooks, ", ")
	}
	return text
}

// relabel returns a command that fixes the labels of our own paths, which are constants.
func relabel(paths []string) string { return "restorecon -RFv " + strings.Join(paths, " ") }

// rootsOf returns those of our files and directories that contain a wrong label.
func rootsOf(wrong []Mislabelled) []string {
	return slices.DeleteFunc(slices.Clone(labelled), func(root string) bool {
		return !slices.ContainsFunc(wrong, func(m Mislabelled) bool { return m.Path == root || strings.HasPrefix(m.Path, root+"/") })
	})
}

// checkLabels checks the labels of our files. A file that was moved keeps its old label.
func checkLabels(s Snapshot) []Finding {
	wrong := s.SELinux.Mislabelled
	if len(wrong) == 0 {
		return nil
	}
	var details []string
	for _, m := range wrong {
		details = append(details, fmt.Sprintf("%s is %s, not %s", m.Path, m.Has, m.Wants))
	}
	what := count(len(wrong), "file") + " of node-dns with an SELinux type that differs from the policy"
	finding := warn(what, relabel(rootsOf(wrong)), oneLine(firstOf(maxDenials, details))...)
	if s.SELinux.HasModule && s.SELinux.Mode != procfs.SELinuxPermissive { // the module that confines the daemon depends on these labels
		finding.Level = Fail
	}
	return []Finding{finding}
}

// checkDenials reports what SELinux denied. It only warns, because the cause may have been fixed
// since, and other checks report what fails now.
func checkDenials(s Snapshot) []Finding {
	if !s.SELinux.Mode.IsOn() {
		return nil
	}
	kinds := alike(s.SELinux.Denials)
	if len(kinds) == 0 {
		return fine("no visible SELinux denials for node-dns in the last hour")
	}
	var details []string
	for _, k := range kinds {
		details = append(details, k.text())
	}
	return []Finding{warn("SELinux denials that concern node-dns in the last hour: "+count(len(s.SELinux.Denials), "denial"),
		"ausearch -m avc,user_avc -ts today | audit2why explains them; without auditd: journalctl --since -1h _TRANSPORT=audit + _TRANSPORT=kernel", oneLine(firstOf(maxDenials, details))...)}
}

// concernsUs reports whether a denial is about our domains, types, programs or files. Another
// program's file with a name like ours is also worth a line.
func concernsUs(d Denial) bool {
	const programs = " node-dns (node-dns) origin-dns-disp 99-origin-dns " // the name of a process has at most 15 characters
	isOurs := func(text string) bool { return strings.HasPrefix(procfs.SELinuxType(text), "node_dns_") }
	return isOurs(d.Source) || isOurs(d.Target) ||
		d.Command != "" && strings.Contains(programs, " "+d.Command+" ") ||
		strings.Contains(d.Name, "node-dns") || strings.Contains(d.Name, "origin-dns") || strings.Contains(d.Name, "origin-upstream-dns")
}

type denialKind struct {
	Denial     // the latest one
	times  int // number of occurrences
}

// alike groups denials, most recent kind first.
func alike(all []Denial) []denialKind {
	var kinds []denialKind
	for _, d := range slices.Backward(all) {
		i := slices.IndexFunc(kinds, func(k denialKind) bool { return k.isSame(d) })
		if i < 0 {
			kinds = append(kinds, denialKind{Denial: d})
			i = len(kinds) - 1
		}
		kinds[i].times++
	}
	return kinds
}

func (k denialKind) text() string {
	who := procfs.SELinuxType(k.Source)
	if k.Command != "" {
		who = k.Command + " as " + who
	}
	object := k.Class
	if k.Name != "" {
		object += " " + k.Name
	}
	if k.Port != "" {
		object += " port " + k.Port
	}
	verb := "denied"
	if k.Permissive {
		verb = "would be denied in enforcing mode:"
	}
	return fmt.Sprintf("%s: %s { %s } on %s of type %s, %s, last at %s", who, verb, strings.Join(k.Permissions, " "), object,
		procfs.SELinuxType(k.Target), count(k.times, "time"), k.Time.UTC().Format(time.TimeOnly))
}
