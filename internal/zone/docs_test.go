package zone_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/golden"
)

const docs = "../../docs/cluster-zone.md"

// TestDocs holds that the tables of the cases in docs/cluster-zone.md are those of the tests.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	made := string(text)
	counts, rows := caseTables(t)
	for name, table := range map[string]string{"counts": counts, "deviations": rows} {
		begin, end := fmt.Sprintf("<!-- %s: from the tests -->\n", name), fmt.Sprintf("<!-- end of %s -->", name)
		before, rest, found := strings.Cut(made, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no place for %s", docs, name)
		}
		made = before + begin + "\n" + table + "\n" + end + after
	}
	golden.Check(t, docs, made)
}

// caseTables renders how many cases of the peers are answered alike, and those that are not.
func caseTables(t *testing.T) (counts, rows string) {
	t.Helper()
	var suites []string
	all, other := map[string]int{}, map[string]int{}
	servers := map[string]served{}
	var table strings.Builder
	table.WriteString("| query | peer | its answer | ours | why |\n|---|---|---|---|---|\n")
	for _, c := range peerCases(t) {
		suite := fmt.Sprintf("| %s | %s |", c.Suite, c.Profile)
		if all[suite] == 0 {
			suites = append(suites, suite)
		}
		all[suite]++
		why, deviates := c.Deviation()
		if !deviates {
			continue
		}
		other[suite]++
		key := c.Profile + " " + c.Fixture
		if servers[key].resolver == nil {
			servers[key] = serveWorld(t, worlds[c.Profile], fixtureOf(t, c))
		}
		ours := servers[key].ask(t, c.Q.Name, dns.StringToType[c.Q.Type])
		fmt.Fprintf(&table, "| `%s` %s | %s | %s | %s | %s |\n", shortName(c.Q.Name), c.Q.Type, askedIn[c.Suite],
			short(c.Expect.Rcode, records(t, c.Expect.Answer), len(c.Expect.Additional)),
			short(dns.RcodeToString[ours.Rcode], ours.Answer, len(ours.Extra)-1), why) // the OPT record is no answer
	}
	var sums strings.Builder
	sums.WriteString("| suite | settings | cases | alike | otherwise |\n|---|---|---|---|---|\n")
	cases, deviating := 0, 0
	for _, suite := range suites {
		fmt.Fprintf(&sums, "%s %d | %d | %d |\n", suite, all[suite], all[suite]-other[suite], other[suite])
		cases, deviating = cases+all[suite], deviating+other[suite]
	}
	fmt.Fprintf(&sums, "| all | | %d | %d | %d |\n", cases, cases-deviating, deviating)
	return sums.String(), table.String()
}

// askedIn are who was asked in a suite.
var askedIn = map[string]string{
	"answer-table-coredns-1.15": "CoreDNS 1.15", "answer-table-skydns-3.11": "OpenShift 3.11", "coredns-plugin-kubernetes": "CoreDNS's tests",
}

func records(t *testing.T, lines []string) []dns.RR {
	t.Helper()
	var all []dns.RR
	for _, line := range lines {
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rr)
	}
	return all
}

// short is a response in a table's cell: records of another owner than the question's are with theirs.
func short(rcode string, answer []dns.RR, additional int) string {
	var parts []string
	switch {
	case rcode != "NOERROR":
		parts = append(parts, rcode)
	case len(answer) == 0:
		return "NODATA"
	}
	for _, rr := range answer {
		data := strings.TrimPrefix(rr.String(), rr.Header().String())
		if rr.Header().Name != answer[0].Header().Name {
			data = fmt.Sprintf("%s %d %s", rr.Header().Name, rr.Header().Ttl, data)
		}
		parts = append(parts, fmt.Sprintf("%s `%s`", dns.Type(rr.Header().Rrtype), shortName(data)))
	}
	if additional > 0 {
		parts = append(parts, "with addresses")
	}
	return strings.Join(parts, ", ")
}

func shortName(text string) string { return strings.ReplaceAll(text, "cluster.local.", "~") }
