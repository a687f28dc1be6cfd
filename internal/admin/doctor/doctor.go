// Package doctor looks a node over and says what is wrong with its DNS, and what mends it. It changes nothing.
//
// Gather takes a Snapshot of all that has a say, the daemon's own word included, where it runs; Diagnose judges it, and is
// pure. It is apart from the daemon, whose status says how the daemon is: here is also what stands in its way when it does not
// run, and what it cannot see of its host.
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
}

// checks are all, in the order in which they are told: what the rest may follow from first.
func checks() []check {
	return []check{
		{"daemon", checkDaemon},
		{"migration", checkMigration},
		{"configuration", checkConfiguration},
		{"node-address", checkAddress},
		{"port", checkPort},
		{"input-filter", checkInputFilter},
		{"units", checkUnits},
		{"commands", checkCommands},
		{"selinux", checkSELinux},
		{"labels", checkLabels},
		{"denials", checkDenials},
		{"hook", checkHook},
		{"old-hook", checkOldHook},
		{"resolv.conf", checkResolvConf},
		{"networkmanager-conf", checkNetworkManagerConf},
		{"writers", checkWriters},
		{"systemd-resolved", checkResolved},
		{"nsswitch", checkNSSwitch},
		{"kubelet", checkKubelet},
		{"upstreams", checkUpstreams},
		{"loop", checkLoop},
		{"cluster", checkCluster},
		{"clock", checkClock},
		{"storage", checkStorage},
		{"group", checkGroup},
		{"descriptors", checkDescriptors},
		{"versions", checkVersions},
		{"look", checkLook},
	}
}

// Diagnose judges a Snapshot. It is pure.
func Diagnose(s Snapshot) Report {
	r := Report{APIVersion: control.APIVersion, Kind: "Doctor", Version: s.Program.Version, Findings: []Finding{}}
	for _, c := range checks() {
		for _, f := range c.judge(s) {
			f.Check = c.name
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
