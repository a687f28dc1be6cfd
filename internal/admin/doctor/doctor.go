// Package doctor finds what is wrong with a node's DNS, and how to fix it. It changes nothing.
//
// Gather takes a Snapshot of all that matters: files, units, the daemon's status, and the answers of the daemon and of nameservers to real
// questions. Diagnose judges it, and is pure. It is apart from the daemon, whose status cannot show why the daemon does not run, nor what
// the daemon does not see of its host.
package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Level says how a Finding is meant.
type Level string

const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, and something may come of it, or could not be looked at
	Fail Level = "fail" // names do not resolve for that, or will not at the next event or boot
)

// A Finding is what came of one check.
type Finding struct {
	Check   string   `json:"check"`
	Level   Level    `json:"level"`
	What    string   `json:"what"`
	Details []string `json:"details,omitempty"` // what was seen, a line each
	Fix     string   `json:"fix,omitempty"`     // what to do, "" where nothing is to be done
}

// Report is all that was found.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Version    string    `json:"version"` // of this program
	Findings   []Finding `json:"findings"`
	OK         int       `json:"ok"`
	Warnings   int       `json:"warnings"`
	Failures   int       `json:"failures"`
}

// check judges one matter. It is pure; what it does not apply to it says nothing of.
type check struct {
	name  string
	judge func(s Snapshot) []Finding
	// symptom: its failures most often follow from those of other checks. They are warnings where there is such a cause.
	symptom bool
}

// checks are all, in the order in which they are told: what the rest may follow from first.
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

// Diagnose judges a Snapshot. It is pure.
func Diagnose(s Snapshot) Report {
	r := Report{APIVersion: control.APIVersion, Kind: "Doctor", Version: s.Program.Version, Findings: []Finding{}}
	for _, c := range checks() {
		for _, f := range c.judge(s) {
			f.Check = c.name
			if c.symptom && f.Level == Fail && r.Failures > 0 {
				f.Level, f.Fix = Warn, "this may follow from the problem above: fix that, and run node-dns doctor again"
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

// orFine is what was found, or, where that is nothing, that all is well.
func orFine(found []Finding, format string, args ...any) []Finding {
	if len(found) > 0 {
		return found
	}
	return fine(format, args...)
}

// WriteText prints the report for people, the counts in its last line.
func (r Report) WriteText(w io.Writer) error {
	r = termtext.All(r) // Details have one line each
	var out strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "%-7s%s\n", f.Level.word(), f.What)
		for _, line := range f.Details {
			fmt.Fprintf(&out, "         %s\n", line)
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
