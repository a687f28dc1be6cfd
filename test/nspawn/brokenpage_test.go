package nspawn

import (
	"regexp"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/doctor"
)

// faultsPage shows what doctor prints about each fault. The tests TestBroken... write it with
// -update.
const faultsPage = "docs/appendix/doctor.md"

// masks replace the parts of doctor's output that differ from run to run.
var masks = []struct {
	part *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b(pid|kill) \d+`), "$1 PID"},
	{regexp.MustCompile(`\(age \d+s\)`), "(age SECONDS)"},
	{regexp.MustCompile(`\d+ inodes`), "INODES inodes"},
	// A host limits how often it reports a closed UDP port (icmp_ratelimit of icmp(7)).
	{regexp.MustCompile(`no answer within 2s; TCP: connection refused`), "connection refused"},
}

// shownAs returns the finding as doctor prints it, with TIME and similar words for what differs
// from run to run.
func shownAs(f doctor.Finding) string {
	printed := text(doctor.Report{Findings: []doctor.Finding{f}})
	block, _, _ := strings.Cut(printed, "0 problems, 0 warnings")
	for _, m := range masks {
		block = m.part.ReplaceAllString(block, m.as)
	}
	return block
}

// title returns the name of a row as a heading.
func title(name string) string {
	if first, _, _ := strings.Cut(name, " "); strings.ContainsAny(first, ".") || strings.ToLower(first[1:]) != first[1:] {
		return name // a file or a proper name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// TestShownAs: two runs give the same text.
func TestShownAs(t *testing.T) {
	got := shownAs(doctor.Finding{
		Level: doctor.Fail, What: "10.77.0.5:53 is in use by dnsmasq (pid 812) since 2026-01-02T03:04:05Z, in the cache (age 7s)", Fix: "stop it (kill 812)", Details: []string{"next try at 03:04:05"},
	})
	const want = "[FAIL] 10.77.0.5:53 is in use by dnsmasq (pid PID) since TIME, in the cache (age SECONDS)\n         next try at TIME\n       -> stop it (kill PID)\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
