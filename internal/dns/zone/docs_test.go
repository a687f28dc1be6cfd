package zone_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/golden"
)

const deviationsPage = "../../../docs/appendix/deviations.md"

// deviationsIntro is the text above the table of counts.
const deviationsIntro = "# Deviations from SkyDNS and CoreDNS\n" +
	"\n" +
	"<!-- Written by `go test ./internal/dns/zone -run TestDocs -update`. -->\n" +
	"\n" +
	"How the answers of the built-in resolver for [cluster names](../reference/cluster-zone.md) compare\n" +
	"with those of OpenShift 3.11 (SkyDNS) and CoreDNS 1.15 for the same objects, and with the tests of\n" +
	"CoreDNS, Kubernetes and OpenShift. The tests query the daemon as a client does. Its objects come\n" +
	"from a real API server. If current API servers reject them, the API server is simulated. `~` is\n" +
	"`cluster.local.`.\n" +
	"\n"

// TestDocs checks that docs/appendix/deviations.md shows the cases and the rules of the tests.
func TestDocs(t *testing.T) {
	counts, rules := caseTables(t)
	golden.Check(t, deviationsPage, deviationsIntro+counts+"\nAll differences are deliberate. Each has a rule:\n\n"+rules)
}

// caseTables renders how many cases of the peers get the same answer, and the rules for the others.
func caseTables(t *testing.T) (counts, rules string) {
	t.Helper()
	var suites []string
	all, other := map[string]int{}, map[string]int{}
	servers := map[string]served{}
	var table deviationTable
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
		table.add(why, fmt.Sprintf("`%s` %s", shortName(c.Q.Name), c.Q.Type), askedIn[c.Suite],
			short(c.Expect.Rcode, records(t, c.Expect.Answer), len(c.Expect.Additional)),
			short(dns.RcodeToString[ours.Rcode], ours.Answer, len(ours.Extra)-1)) // the OPT record does not count
	}
	var sums strings.Builder
	sums.WriteString("| suite | settings | cases | same | different |\n|---|---|---|---|---|\n")
	cases, deviating := 0, 0
	for _, suite := range suites {
		fmt.Fprintf(&sums, "%s %d | %d | %d |\n", suite, all[suite], all[suite]-other[suite], other[suite])
		cases, deviating = cases+all[suite], deviating+other[suite]
	}
	fmt.Fprintf(&sums, "| all | | %d | %d | %d |\n", cases, cases-deviating, deviating)
	return sums.String(), table.text()
}

// deviationTable has one row per rule, with an example and the other questions that the rule
// affects.
type deviationTable struct{ rows []*deviationRow }

type deviationRow struct {
	why, query, there, ours string
	also                    []string
}

func (d *deviationTable) add(why, query, peer, theirs, ours string) {
	theirs = peer + ": " + theirs
	i := slices.IndexFunc(d.rows, func(r *deviationRow) bool { return r.why == why })
	if i < 0 {
		d.rows = append(d.rows, &deviationRow{why: why, query: query, there: theirs, ours: ours})
		return
	}
	switch r := d.rows[i]; {
	case r.query == query:
		r.there += "; " + theirs
	case !slices.Contains(r.also, query):
		r.also = append(r.also, query)
	}
}

func (d *deviationTable) text() string {
	var text strings.Builder
	text.WriteString("| rule | example | peer | node-dns | also tested with |\n|---|---|---|---|---|\n")
	for _, r := range d.rows {
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", r.why, r.query, r.there, r.ours, strings.Join(r.also, ", "))
	}
	return text.String()
}

// askedIn maps suites to the peers that were queried.
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

// short renders a response for a table cell. Records show their owner if it differs from the
// question.
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
