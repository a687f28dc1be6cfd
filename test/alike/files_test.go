package alike

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/test/daemontest"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestFilesLikeDnsmasq gives the same files to dnsmasq 2.90 and to node-dns and compares their
// answers. A row with different answers must give a reason, and a row with a reason must differ.
func TestFilesLikeDnsmasq(t *testing.T) {
	if testing.Short() {
		t.Skip("starts more than a hundred daemons; internal/policy and internal/resolve test each directive")
	}
	t.Parallel()
	lab.NeedPrograms(t, "dnsmasq")
	for _, row := range fileRows() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			upstreams := startUpstreams(t)
			var words []string
			for i, word := range []string{"UP", "OTHER", "BARE"} {
				words = append(words, word, strings.Replace(upstreams[i].Addr().String(), ":", "#", 1))
			}
			here := strings.NewReplacer(words...)
			row.conf, row.beside = here.Replace(row.conf), here.Replace(row.beside)
			for attempt := 1; ; attempt++ {
				want, got, isSlow := row.answers(t, upstreams)
				switch {
				case slices.Equal(got, want) == (row.why == ""):
				case isSlow && attempt < 4:
					continue // a cached answer may have expired in one of the two
				default:
					t.Errorf("theirs %s\nours   %s", strings.Join(want, "\n       "), strings.Join(got, "\n       "))
				}
				return
			}
		})
	}
}

// startUpstreams returns the nameservers UP, OTHER and BARE of a row. Rows count their queries.
func startUpstreams(t *testing.T) []*dnstest.Server {
	t.Helper()
	bare := dnstest.NewServer(t, "")
	bare.SetFaults(dnstest.Faults{NoSOA: true})
	return []*dnstest.Server{dnstest.NewServer(t, fileRecords+dnstest.BigRecords()), dnstest.NewServer(t, otherRecords), bare}
}

// answers returns the answers of dnsmasq and node-dns to the row's questions. isSlow reports that a
// question took so long that a TTL may differ by a second.
func (row fileRow) answers(t *testing.T, upstreams []*dnstest.Server) (want, got []string, isSlow bool) {
	t.Helper()
	root, ours := daemontest.RunFiles(t, row.files())
	theirs := lab.StartDnsmasq(t, root, row.conf+"\n"+row.beside)
	questions := row.questions
	if questions == nil {
		questions = every()
	}
	ask := func(at netip.AddrPort, question string) string {
		before, begun := timesAsked(upstreams, question), time.Now()
		answer := dnstest.AskLine(t, at, question)
		if row.ports {
			answer += portsAsked(row.conf, upstreams, question)
		}
		if row.counted {
			answer += fmt.Sprintf(", asked %d times", timesAsked(upstreams, question)-before)
		}
		isSlow = isSlow || time.Since(begun) > 200*time.Millisecond
		return answer
	}
	for i, question := range questions {
		if _, after, found := strings.Cut(question, " after="); found {
			pause, err := time.ParseDuration(after)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause) // until a TTL has expired in both
		}
		their, our := ask(theirs, question), ask(ours, question)
		if slices.ContainsFunc(questions[:i], func(q string) bool { return strings.HasPrefix(question, q) || strings.HasPrefix(q, question) }) {
			their, our = remembered(their), remembered(our)
		}
		want, got = append(want, their), append(got, our)
	}
	return want, got, isSlow
}

// remembered rounds TTLs up to a multiple of 5, to undo a countdown of some seconds.
func remembered(answer string) string {
	return regexp.MustCompile(` \d+ IN `).ReplaceAllStringFunc(answer, func(text string) string {
		ttl, _ := strconv.Atoi(strings.Fields(text)[0]) // digits
		return fmt.Sprintf(" %d IN ", (ttl+4)/5*5)
	})
}

// files returns the files of our host. They have the same lines in the same order as dnsmasq's,
// with other path prefixes.
func (row fileRow) files() map[string]string {
	ours := "clusterDomain: cluster.test\n"
	if !row.ourDefault && !strings.Contains(row.conf, "domain-needed") {
		ours += "domainNeeded: false\n"
	}
	return map[string]string{
		"/etc/dnsmasq.d/" + cmp.Or(row.file, "test.conf"): strings.ReplaceAll(row.conf, "ROOT", ""),
		"/etc/dnsmasq.d/z.conf":                           row.beside, "/etc/hosts": hostsOfRows,
		"/etc/more.d/x": "192.0.2.31 dir.example\n", "/etc/extra.conf": "address=/extra.corp/192.0.2.32\n",
		"/etc/extra.d/a.conf": "address=/in-dir.corp/192.0.2.33\n", "/etc/extra.d/b.txt": "address=/not.corp/192.0.2.34\n",
		"/etc/more": "192.0.2.30 more.example more2\n", "/etc/node-dns/node-dns.yaml": ours,
	}
}

// timesAsked returns how often the upstreams received a question.
func timesAsked(upstreams []*dnstest.Server, question string) int {
	fields := strings.Fields(question)
	sum := 0
	for _, server := range upstreams {
		sum += server.QueriesFor(fields[0], dnstest.TypeOf(fields[1]))
	}
	return sum
}

// portsAsked reports whether the last upstream query for a question came from between min-port and
// max-port.
func portsAsked(conf string, upstreams []*dnstest.Server, question string) string {
	limit := func(option string, otherwise uint64) uint64 {
		_, rest, _ := strings.Cut("\n"+conf, "\n"+option+"=")
		text, _, _ := strings.Cut(rest, "\n")
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			return n
		}
		return otherwise
	}
	fields := strings.Fields(question)
	for _, server := range upstreams {
		for _, q := range slices.Backward(server.Received()) {
			asked := q.Msg.Question[0]
			if q.Network == "udp" && asked.Name == dns.Fqdn(fields[0]) && asked.Qtype == dnstest.TypeOf(fields[1]) {
				port := uint64(q.Client.Port())
				return fmt.Sprintf(", between min-port and max-port %v", limit("min-port", 1024) <= port && port <= limit("max-port", 65535))
			}
		}
	}
	return ", nobody asked"
}

// TestFileRows: each option that is followed has a row, and the rows show exactly the listed
// differences.
func TestFileRows(t *testing.T) {
	elsewhere := []string{"listen-address", "interface", "port", "log-queries"} // not visible in answers
	set := map[string]bool{}
	var reasons []string
	for _, row := range fileRows() {
		for line := range strings.Lines(row.conf) {
			option, _, _ := strings.Cut(line, "=")
			set[strings.TrimSpace(option)] = true
		}
		if row.why != "" && !slices.Contains(reasons, row.why) {
			reasons = append(reasons, row.why)
		}
	}
	for _, option := range dnsmasqconf.Followed() {
		if set[option] == slices.Contains(elsewhere, option) {
			t.Errorf("%s: has a row: %v", option, set[option])
		}
	}
	var listed []string
	for _, row := range differences {
		listed = append(listed, row[0])
	}
	slices.Sort(reasons)
	slices.Sort(listed)
	if diff := gocmp.Diff(reasons, listed); diff != "" {
		t.Errorf("-rows +differences\n%s", diff)
	}
}

// TestDifferencesPage checks that the page has the differences.
func TestDifferencesPage(t *testing.T) {
	golden.CheckTable(t, "../../docs/appendix/dnsmasq.md", "./test/alike -run TestDifferencesPage", golden.Table("difference", "reason", differences))
}
