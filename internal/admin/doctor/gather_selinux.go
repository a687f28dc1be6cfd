package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/procfs"
)

const (
	policyModule = "node_dns"
	restorecon   = "/usr/sbin/restorecon"
	auditLog     = "/var/log/audit/audit.log"
	// maxAudit limits how much of the end of the audit log is read, in bytes. auditd rotates the
	// log at 8 MiB.
	maxAudit = 4 << 20
	// lately is the period that is searched for denials.
	lately = time.Hour
)

// labelled lists our files and directories, except /etc/resolv.conf, whose label checkResolvConf
// checks.
var labelled = []string{
	"/usr/sbin/node-dns", hookProgram, "/usr/libexec/node-dns", "/usr/lib/NetworkManager/dispatcher.d/" + hookName,
	"/etc/node-dns", "/var/lib/node-dns", "/var/cache/node-dns", "/run/node-dns", "/run/origin-dns-dispatcher",
	"/etc/dnsmasq.d/origin-upstream-dns.conf", "/etc/origin/node/resolv.conf",
}

// selinux reads the state of SELinux from the kernel, libselinux and the audit records.
func (g *gathering) selinux(ctx context.Context) {
	if !g.s.Live {
		return
	}
	s := &g.s.SELinux
	s.Mode, s.Config, s.InKernel = procfs.FindSELinux(g.root).Mode(), readSELinuxConfig(g.root), hasSELinux(g.root)
	if !s.Mode.IsOn() {
		return
	}
	s.HasModule = hasModule(g.root, s.Config.Policy, policyModule)
	s.Daemon = g.domainOfDaemon()
	g.each(ctx, g.labels, g.denials, g.hookDomains)
}

// domainOfDaemon returns the daemon's domain from the kernel or, if the daemon runs in a container,
// from its status. It is empty if the daemon does not run or is too old.
func (g *gathering) domainOfDaemon() string {
	if pid, ok := g.daemonPID(); ok {
		return procfs.SELinuxType(procfs.SELinuxContext(g.root, pid))
	}
	if g.s.Status == nil || g.s.Status.SELinux == nil {
		return ""
	}
	return g.s.Status.SELinux.Domain
}

// labels runs restorecon to compare the labels of our files with the policy, so that libselinux
// itself decides. With -n, restorecon changes nothing.
func (g *gathering) labels(ctx context.Context) {
	if !g.s.Host.Root {
		return // some files are not accessible
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// -i does not help: restorecon always complains about a path whose directory is missing
	// (libselinux 3.4).
	there := slices.DeleteFunc(slices.Clone(labelled), func(path string) bool { return !g.isFile(path) })
	if len(there) == 0 {
		return
	}
	out, err := output(ctx, append([]string{restorecon, "-n", "-v", "-R"}, there...)...)
	if err != nil {
		g.unseen("the SELinux labels of node-dns's files were not compared with the policy: running %s: %v", restorecon, withStderr(err))
	}
	g.s.SELinux.Mislabelled = parseRelabels(out)
}

// withStderr adds the first line of a program's error output to its error.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, firstLine(strings.TrimSpace(string(exit.Stderr))))
	}
	return err
}

// parseRelabels reads the output of `restorecon -n -v`: "Would relabel PATH from CONTEXT to
// CONTEXT" (restorecon(8)). A path may contain spaces, but a context cannot.
func parseRelabels(text string) []Mislabelled {
	line := regexp.MustCompile(`(?m)^Would relabel (.*) from (.*) to (.*)$`)
	var all []Mislabelled
	for _, match := range line.FindAllStringSubmatch(text, -1) {
		all = append(all, Mislabelled{Path: match[1], Has: orNone(procfs.SELinuxType(match[2])), Wants: procfs.SELinuxType(match[3])})
	}
	return all
}

// denials reads audit records from auditd's log and from the journal. The journal has those of a
// host without auditd and those from before auditd starts. They are records, or lines of the kernel
// log if systemd-journald-audit.socket is disabled.
func (g *gathering) denials(ctx context.Context) {
	const what = "SELinux denials"
	start := g.s.Now.Add(-lately)
	text, err := tail(g.at(auditLog), maxAudit)
	if err != nil && !os.IsNotExist(err) {
		g.unseen("%s: %v", what, err)
	}
	var found []Denial
	for line := range strings.Lines(text) {
		if d, ok := parseDenial(line); ok {
			found = append(found, d)
		}
	}
	if hasSystemd() {
		const avc, userAVC = "_AUDIT_TYPE=1400", "_AUDIT_TYPE=1107" // linux/audit.h
		for _, entry := range g.journal(ctx, what, []string{"MESSAGE", "_AUDIT_ID"}, since(start), "_TRANSPORT=audit", avc, userAVC) {
			if d, ok := parseDenial(entry["MESSAGE"]); ok {
				d.Time = entry.time()
				d.Serial, _ = strconv.ParseUint(entry["_AUDIT_ID"], 10, 64) // 0 if missing
				found = append(found, d)
			}
		}
		const notice = "PRIORITY=5" // the priority used by audit_printk_skb in the kernel
		for _, entry := range g.journal(ctx, what, []string{"MESSAGE"}, since(start), "_TRANSPORT=kernel", notice) {
			if d, ok := parseDenial(entry["MESSAGE"]); ok {
				found = append(found, d)
			}
		}
	}
	g.s.SELinux.Denials = relevantDenials(found, start)
}

// relevantDenials returns the denials since start that concern us, oldest first. It counts a denial
// once if both the audit log and the journal have it.
func relevantDenials(all []Denial, start time.Time) []Denial {
	var found []Denial
	for _, d := range all {
		isKnown := func(other Denial) bool { return d.Serial != 0 && d.Serial == other.Serial && d.isSame(other) }
		if !d.Time.Before(start) && concernsUs(d) && !slices.ContainsFunc(found, isKnown) {
			found = append(found, d)
		}
	}
	slices.SortStableFunc(found, func(a, b Denial) int { return a.Time.Compare(b.Time) })
	return found
}

// tail returns at most limit bytes from the end of a file, starting at the beginning of a line.
func tail(path string, limit int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-limit)
	text, err := io.ReadAll(io.NewSectionReader(file, from, limit))
	if err != nil {
		return "", err
	}
	if from > 0 {
		_, rest, _ := strings.Cut(string(text), "\n")
		return rest, nil
	}
	return string(text), nil
}

// hookDomains finds the domains in which the hook ran. The hook logs a line at each run, and
// journald records the context of each sender (_SELINUX_CONTEXT, systemd.journal-fields(7)). Only
// entries sent over the journal's own protocol are the hook's. systemd's child process, as init_t,
// prints under the same identifier before it executes the hook (libselinux's warnings, with the
// policy of RHEL 10).
func (g *gathering) hookDomains(ctx context.Context) {
	if !hasSystemd() {
		return
	}
	// A run before the last relabeling says nothing about the next one.
	entries := g.journal(ctx, "the domain of the hook", []string{"_SELINUX_CONTEXT", "_SYSTEMD_UNIT", "OBJECT_SYSTEMD_UNIT"},
		"--boot", since(g.lastChange(hookFiles)), "_TRANSPORT=journal", "SYSLOG_IDENTIFIER="+hookIdentifier)
	g.s.SELinux.Hooks = lastRuns(entries)
}

// lastChange returns when one of the files, or its label, last changed. It ignores missing files
// and returns the epoch if all are missing.
func (g *gathering) lastChange(paths []string) time.Time {
	last := time.Unix(0, 0)
	for _, path := range paths {
		var stat unix.Stat_t
		if unix.Stat(g.at(path), &stat) != nil {
			continue
		}
		if changed := time.Unix(stat.Ctim.Unix()); changed.After(last) {
			last = changed
		}
	}
	return last
}

// lastRuns returns the domain of the hook's last run in each unit. The unit is the one recorded by
// journald. For a run that ended before journald looked, it is the one that the hook reports
// (systemd issue 2913).
func lastRuns(entries []logEntry) []HookDomain {
	var all []HookDomain
	for _, entry := range slices.Backward(entries) {
		h := HookDomain{Unit: entry["_SYSTEMD_UNIT"], Domain: procfs.SELinuxType(entry["_SELINUX_CONTEXT"])}
		if h.Unit == "" {
			h.Unit = entry["OBJECT_SYSTEMD_UNIT"]
		}
		isKnown := func(other HookDomain) bool { return other.Unit == h.Unit }
		if h.Unit != "" && h.Domain != "" && !slices.ContainsFunc(all, isKnown) {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b HookDomain) int { return strings.Compare(a.Unit, b.Unit) })
	return all
}
