package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

var now = time.Date(2026, 11, 27, 15, 0, 0, 0, time.UTC)

// said are the nodes with the same output or transport error.
type said struct {
	nodes  []string
	output string
	code   int
	err    error
}

// rack returns names of nodes: rack-7-01, rack-7-02, ...
func rack(prefix string, first, last int) (names []string) {
	for i := first; i <= last; i++ {
		names = append(names, fmt.Sprintf("%s%02d", prefix, i))
	}
	return names
}

const (
	wellStatus    = `{"kind": "Status", "version": "1.4.0", "ready": true, "problems": []}`
	oldStatus     = `{"kind": "Status", "version": "1.3.9", "problems": []}`
	silentAt      = `{"kind": "Status", "version": "1.4.0", "problems": ["10.0.0.2 (for .) is down: i/o timeout"], "routes": [{"domain": ".", "servers": [{"address": "10.0.0.2", "state": "down", "since": "%s", "error": "i/o timeout"}]}]}`
	failedQueries = `{"kind": "Status", "version": "1.4.0", "problems": ["%d of %d queries failed in %s (3.5%%)"]}`
	answered      = `{"kind": "Lookup", "found": true, "steps": [{"name": "a.", "answers": [{"type": "A", "rcode": "NXDOMAIN"}]}, {"name": "b.", "answers": [{"type": "A", "rcode": "NOERROR", "answer": [%s]}, {"type": "AAAA", "rcode": "NOERROR"}]}]}`
	notFound      = `{"kind": "Lookup", "found": false, "steps": [{"name": "www.example.com.", "answers": [{"type": "A", "rcode": "%s"}]}]}`
	explanation   = `{"kind": "Explanation", "found": true, "problems": [], "libraries": [{"library": "glibc", "queries": 8}, {"library": "musl", "queries": 4}]}`
	servers       = `{"kind": "ServerList", "problems": [], "routes": [{"domain": ".", "servers": [{"address": "10.0.0.2", "state": "%s"}, {"address": "10.0.0.3", "state": "up"}]}]}`
	doctor        = `{"kind": "Doctor", "version": "1.4.0", "findings": [{"level": "ok", "what": "fine"}, {"level": "warn", "what": "the clock of %[1]s is wrong by %[2]s", "fix": "chronyc makestep"}, {"level": "%[3]s", "what": "%[4]s:53 is in use", "fix": "systemctl disable --now dnsmasq"}]}`
)

const (
	leftStatus = `{"kind": "Status", "version": "1.4.0", "ready": true, "leftTo": "node-dns 1.3.9 at %s:53", "problems": ["not ours"]}`
	leftDoctor = `{"kind": "Doctor", "version": "1.4.0", "leftTo": "node-dns 1.3.9 at %s:53", "findings": [{"level": "fail", "what": "not ours"}]}`
)

var reports = []struct {
	name    string
	command Command
	said    []said
}{
	{"all are ok", Command{Name: "status"}, []said{{nodes: rack("rack-7-", 1, 12), output: wellStatus}}},
	{"one node", Command{Name: "status"}, []said{{nodes: rack("a", 1, 1), output: wellStatus}}},
	{"a silent upstream of one rack", Command{Name: "status"}, []said{
		{nodes: rack("rack-1-", 1, 40), output: wellStatus},
		{nodes: rack("rack-7-", 1, 11), output: fmt.Sprintf(silentAt, "2026-11-27T14:02:11Z")},
		{nodes: rack("rack-7-", 12, 12), output: fmt.Sprintf(silentAt, "2026-11-27T14:02:59Z")},
	}},
	{"the times of several nodes", Command{Name: "status"}, []said{
		{nodes: []string{"a"}, output: fmt.Sprintf(silentAt, "2026-11-26T14:02:11Z")},
		{nodes: []string{"b"}, output: fmt.Sprintf(silentAt, "2026-11-27T14:07:00Z")},
	}},
	{"the numbers of several nodes", Command{Name: "status"}, []said{
		{nodes: []string{"a"}, output: fmt.Sprintf(failedQueries, 9, 100, "1m30s")},
		{nodes: []string{"b"}, output: fmt.Sprintf(failedQueries, 10, 100, "45s")},
		{nodes: []string{"c"}, output: fmt.Sprintf(failedQueries, 3, 100, "1d2h")},
	}},
	{"two versions", Command{Name: "status"}, []said{
		{nodes: rack("n", 1, 8), output: wellStatus}, {nodes: rack("n", 9, 10), output: oldStatus},
	}},
	{"nodes that do not answer", Command{Name: "status"}, []said{
		{nodes: []string{"a"}, output: wellStatus},
		{nodes: []string{"b"}, err: context.DeadlineExceeded},
		{nodes: []string{"c"}, err: context.Canceled},
		{nodes: []string{"d"}, err: fmt.Errorf("pods is forbidden: %w", os.ErrPermission)},
		{nodes: []string{"e"}, err: errors.New("error dialing backend: dial tcp 192.0.2.1:10250: connection refused")},
		{nodes: []string{"f"}, err: ErrTooLarge},
		{nodes: []string{"g"}, output: "exec failed\n", code: 126},
		{nodes: []string{"h"}, output: `{"kind": "Error", "error": "node-dns is not running", "hint": "systemctl start node-dns", "exitCode": 3}`, code: 3},
		{nodes: []string{"i"}, output: `{"kind": "Doctor"}`},
		{nodes: []string{"j"}, output: `{"kind": "Status", "problems": "none"}`},
	}},
	// The chart's pod on such a node is ready. It used to count as ok without being asked.
	{"nodes that the RPM serves", Command{Name: "status"}, []said{
		{nodes: rack("n", 1, 38), output: wellStatus},
		{nodes: []string{"p1"}, output: fmt.Sprintf(leftStatus, "192.0.2.112")},
		{nodes: []string{"p2"}, output: fmt.Sprintf(leftStatus, "192.0.2.112")},
	}},
	{"the doctor of a node that the RPM serves", Command{Name: "doctor"}, []said{
		{nodes: []string{"a"}, output: fmt.Sprintf(doctor, "a", "3s", "ok", "192.0.2.97")},
		{nodes: []string{"b"}, output: fmt.Sprintf(leftDoctor, "192.0.2.98")},
	}},
	{"no node is allowed", Command{Name: "status"}, []said{{nodes: rack("n", 1, 2), err: os.ErrPermission}}},
	{"no daemon runs", Command{Name: "status"}, []said{
		{nodes: rack("n", 1, 2), output: `{"kind": "Error", "error": "node-dns is not running", "exitCode": 3}`, code: 3},
	}},
	{"doctor", Command{Name: "doctor"}, []said{
		{nodes: []string{"a"}, output: fmt.Sprintf(doctor, "a", "3s", "ok", "192.0.2.97")},
		{nodes: []string{"b"}, output: fmt.Sprintf(doctor, "b", "4m", "fail", "192.0.2.98")},
		{nodes: []string{"c"}, output: fmt.Sprintf(doctor, "c", "2h1m", "fail", "192.0.2.99")},
	}},
	{"servers", Command{Name: "servers"}, []said{
		{nodes: rack("n", 1, 6), output: fmt.Sprintf(servers, "up")}, {nodes: rack("n", 7, 7), output: fmt.Sprintf(servers, "unknown")},
	}},
	{"query", Command{Name: "query", Args: []string{"--", "www.example.com"}}, []said{
		{nodes: rack("n", 1, 6), output: fmt.Sprintf(answered, `{"type": "A", "data": "192.0.2.8"}, {"type": "A", "data": "192.0.2.7"}`)},
		{nodes: rack("n", 7, 7), output: fmt.Sprintf(answered, `{"type": "A", "data": "192.0.2.7"}, {"type": "A", "data": "192.0.2.8"}`)},
		{nodes: []string{"o1"}, output: fmt.Sprintf(notFound, "NXDOMAIN")},
		{nodes: []string{"o2"}, output: fmt.Sprintf(notFound, "")},
	}},
	{"explain", Command{Name: "explain", Args: []string{"--", "db"}}, []said{{nodes: rack("n", 1, 2), output: explanation}}},
	{"hostile", Command{Name: "status"}, []said{
		{nodes: []string{"a"}, output: wellStatus},
		{nodes: []string{"b"}, output: `{"kind": "Status", "version": "\u001b[2J", "problems": ["\u001b]0;title\u0007 two\nlines\r\u202e", "` + strings.Repeat("long ", 1000) + `"]}`},
		{nodes: []string{"c"}, output: "\x1b[2J\xff\xfe", code: 1},
		{nodes: []string{"d"}, output: strings.Repeat("[", 100_000)},
		{nodes: []string{"e"}, output: `{"kind": "Status", "problems": [` + strings.Repeat(`"x`+slot+`y", `, 1000) + `"z"]}`},
	}},
}

// resultsOf returns the results of a row, sorted by node, as Run does.
func resultsOf(t *testing.T, command Command, all []said) []Result {
	t.Helper()
	var nodes []Node
	var pods []Pod
	answers := map[string]said{}
	for _, s := range all {
		for _, name := range s.nodes {
			nodes = append(nodes, Node{Name: name, Addresses: []string{fmt.Sprintf("192.0.2.%d", name[0])}})
			pods = append(pods, Pod{Name: "pod-" + name, Node: name})
			answers["pod-"+name] = s
		}
	}
	return Run(t.Context(), Config{
		Command: command, Targets: Targets(nodes, pods, "kube-system"), Parallel: 3, Timeout: time.Minute, Keep: MaxKept,
		Exec: func(_ context.Context, pod string, argv []string) (Output, error) {
			if got, want := strings.Join(argv[:4], " "), "node-dns "+command.Name+" --output json"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			s := answers[pod]
			if s.code == 126 {
				return Output{Stderr: []byte(s.output), Code: s.code}, nil
			}
			return Output{Stdout: []byte(s.output), Code: s.code}, s.err
		},
	})
}

func TestReport(t *testing.T) {
	for _, test := range reports {
		t.Run(test.name, func(t *testing.T) {
			report := NewReport(test.command.Name, resultsOf(t, test.command, test.said), now)
			var out strings.Builder
			if err := report.WriteText(&out, time.UTC); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "exit code %d\n", report.ExitCode)
			golden.Check(t, "testdata/report/"+strings.ReplaceAll(test.name, " ", "-")+".txt", out.String())
			if out := out.String(); termtext.Lines(out, "") != out {
				t.Errorf("the text has unprintable characters: %q", out)
			}
		})
	}
}

// TestPage: the output in docs/howto/fleet.md is that of a row.
func TestPage(t *testing.T) {
	consoles := manpage.Consoles(t, "../../../docs/howto/fleet.md")
	if len(consoles) != 1 || consoles[0].Command != "kubectl node-dns status" {
		t.Fatalf("got %+v", consoles)
	}
	test := reports[2]
	var out strings.Builder
	if err := NewReport(test.command.Name, resultsOf(t, test.command, test.said), now).WriteText(&out, time.UTC); err != nil {
		t.Fatal(err)
	}
	if consoles[0].Output != out.String() {
		t.Errorf("the page has\n%s, want\n%s", consoles[0].Output, out.String())
	}
}

// TestReportFolds: on a narrow terminal the lines are folded.
func TestReportFolds(t *testing.T) {
	test := reports[2]
	var out strings.Builder
	if err := NewReport("status", resultsOf(t, test.command, test.said), now).WriteText(termtext.Sheet{Writer: &out, Columns: 50}, time.UTC); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report/narrow.txt", out.String())
}

func TestReportJSON(t *testing.T) {
	goldens := map[string]string{"a silent upstream of one rack": "one-rack", "nodes that the RPM serves": "left-to-the-rpm"}
	for _, name := range []string{"a silent upstream of one rack", "nodes that the RPM serves", "hostile"} {
		for _, test := range reports {
			if test.name != name {
				continue
			}
			report := NewReport(test.command.Name, resultsOf(t, test.command, test.said), now)
			if name != "hostile" {
				report.Results = report.Results[len(report.Results)-1:]
			}
			var out strings.Builder
			if err := report.WriteJSON(&out); err != nil {
				t.Fatal(err)
			}
			if !json.Valid([]byte(out.String())) || termtext.Lines(out.String(), "") != out.String() {
				t.Errorf("%s: got invalid JSON or unprintable characters: %q", name, out.String())
			}
			if name != "hostile" {
				golden.Check(t, "testdata/report/"+goldens[name]+".json", out.String())
			}
		}
	}
}

// TestLimits: the text has a limited number of lines, whatever the nodes say.
func TestLimits(t *testing.T) {
	var all []said
	for i := range 100 {
		all = append(all, said{nodes: rack(fmt.Sprintf("n%02d-", i), 1, 1), output: fmt.Sprintf(`{"kind": "Status", "version": "v%d", "problems": ["a%d", "b%d"]}`, i, i, i)})
	}
	report := NewReport("status", resultsOf(t, Command{Name: "status"}, all), now)
	var out strings.Builder
	if err := report.WriteText(&out, time.UTC); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(out.String(), "\n"), 1+maxGroups+1+maxGroups+1; got != want || !strings.Contains(out.String(), "  180 more problems: -o json has all\n") {
		t.Errorf("got %d lines, want %d:\n%s", got, want, out.String())
	}
}
