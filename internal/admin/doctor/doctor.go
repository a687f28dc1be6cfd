// Package doctor finds problems with a node's DNS and suggests fixes. It changes nothing.
//
// Gather collects a Snapshot: files, units, the daemon's status, and the answers of the daemon and
// of nameservers to real queries. Diagnose evaluates it and is pure. The package is separate from
// the daemon, because the daemon's status cannot explain why the daemon does not run, or show what
// the daemon cannot see of its host.
package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Level is the severity of a Finding.
type Level string

const (
	OK   Level = "ok"
	Warn Level = "warn" // works now, but may cause a problem, or could not be checked
	Fail Level = "fail" // names do not resolve because of it, or will stop resolving at the next event or boot
)

// Finding is one result of a check.
type Finding struct {
	Check   string   `json:"check"`
	Level   Level    `json:"level"`
	What    string   `json:"what"`
	Details []string `json:"details,omitempty"` // evidence, one line each
	Fix     string   `json:"fix,omitempty"`     // suggested fix; empty if none is needed
}

// Report holds all findings.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Version    string    `json:"version"`          // version of this program
	LeftTo     string    `json:"leftTo,omitempty"` // as in the daemon's status: another node-dns that serves this node
	Findings   []Finding `json:"findings"`
	OK         int       `json:"ok"`
	Warnings   int       `json:"warnings"`
	Failures   int       `json:"failures"`
}

// check evaluates one topic. It is pure and returns nothing if the topic does not apply.
type check struct {
	name  string
	judge func(s Snapshot) []Finding
	// symptom marks a check whose failures usually follow from those of other checks. If another
	// check failed, they are downgraded to warnings.
	symptom bool
}

// checks returns all checks in the order of the report: likely causes first, symptoms last.
func checks() []check {
	return []check{
		{name: "daemon", judge: checkDaemon},
		{name: "migration", judge: checkMigration},
		{name: "configuration", judge: checkConfiguration},
		{name: "storage", judge: checkStorage},
		{name: "node-address", judge: checkAddress},
		{name: "port", judge: checkPort},
		{name: "input-filter", judge: checkInputFilter},
		{name: "units", judge: checkUnits},
		{name: "commands", judge: checkCommands},
		{name: "selinux", judge: checkSELinux},
		{name: "labels", judge: checkLabels},
		{name: "denials", judge: checkDenials},
		{name: "hook", judge: checkHook},
		{name: "old-hook", judge: checkOldHook},
		{name: "resolv.conf", judge: checkResolvConf},
		{name: "networkmanager-conf", judge: checkNetworkManagerConf},
		{name: "writers", judge: checkWriters},
		{name: "systemd-resolved", judge: checkResolved},
		{name: "nsswitch", judge: checkNSSwitch},
		{name: "kubelet", judge: checkKubelet},
		{name: "upstreams", judge: checkUpstreams},
		{name: "loop", judge: checkLoop},
		{name: "cluster", judge: checkCluster},
		{name: "clients", judge: checkClients},
		{name: "interception", judge: checkInterception},
		{name: "cache", judge: checkStale},
		{name: "clock", judge: checkClock},
		{name: "group", judge: checkGroup},
		{name: "descriptors", judge: checkDescriptors},
		{name: "versions", judge: checkVersions},
		{name: "files", judge: checkFiles, symptom: true},
		{name: "reports", judge: checkReports, symptom: true},
		{name: "names", judge: checkNames, symptom: true},
		{name: "recent", judge: checkRecent, symptom: true},
		{name: "look", judge: checkLook},
	}
}

// Diagnose evaluates a Snapshot. It is pure.
func Diagnose(s Snapshot) Report {
	r := Report{APIVersion: control.APIVersion, Kind: "Doctor", Version: s.Program.Version, Findings: []Finding{}}
	if s.Status != nil {
		r.LeftTo = s.Status.LeftTo
	}
	for _, c := range checks() {
		for _, f := range c.judge(s) {
			f.Check = c.name
			if c.symptom && f.Level == Fail && r.Failures > 0 {
				f.Level, f.Fix = Warn, "this may be caused by the problem above: fix that, then run node-dns doctor again"
			}
			r.Findings = append(r.Findings, f)
			switch f.Level {
			case OK:
				r.OK++
			case Warn:
				r.Warnings++
			default:
				r.Failures++
			}
		}
	}
	return r
}

func fine(format string, args ...any) []Finding {
	return []Finding{{Level: OK, What: fmt.Sprintf(format, args...)}}
}

func warn(what, fix string, details ...string) Finding {
	return Finding{Level: Warn, What: what, Fix: fix, Details: details}
}

func fail(what, fix string, details ...string) Finding {
	return Finding{Level: Fail, What: what, Fix: fix, Details: details}
}

// orFine returns found, or an OK finding with this message if found is empty.
func orFine(found []Finding, format string, args ...any) []Finding {
	if len(found) > 0 {
		return found
	}
	return fine(format, args...)
}

// WriteText prints the report as text. The last line has the counts. On a narrow terminal all but
// the fixes is folded: their commands can be copied from a line that the terminal itself breaks.
func (r Report) WriteText(w io.Writer) error {
	r = termtext.All(r) // each detail stays on one line
	columns := termtext.Columns(w)
	var out strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintln(&out, termtext.Fold(fmt.Sprintf("%-7s%s", f.Level.word(), f.What), "       ", columns))
		for _, line := range f.Details {
			fmt.Fprintln(&out, termtext.Fold("         "+line, "           ", columns))
		}
		if f.Fix != "" {
			fmt.Fprintf(&out, "       -> %s\n", f.Fix)
		}
	}
	fmt.Fprintf(&out, "%s, %s, %d ok. Nothing was changed.\n", count(r.Failures, "problem"), count(r.Warnings, "warning"), r.OK)
	_, err := io.WriteString(w, out.String())
	return err
}

func (l Level) word() string {
	if l == Fail {
		return "[FAIL]"
	}
	return "[" + string(l) + "]"
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
