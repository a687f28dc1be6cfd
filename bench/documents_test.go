package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/bench/result"
	"github.com/node-dns/node-dns/internal/test/golden"
)

// TestCommands: the program accepts the arguments in the document and the Makefile.
func TestCommands(t *testing.T) {
	makefile, document := read(t, "../Makefile"), read(t, "../docs/explanation/bench.md")
	var all []string
	for _, match := range regexp.MustCompile(`\$\(GO\) run \./bench (-.*)`).FindAllStringSubmatch(makefile, -1) {
		all = append(all, strings.TrimSuffix(match[1], " $(BENCHFLAGS)"))
	}
	for _, match := range regexp.MustCompile(`BENCHFLAGS='(.*)'`).FindAllStringSubmatch(makefile+document, -1) {
		all = append(all, match[1])
	}
	if len(all) != 6 {
		t.Errorf("want six: %q", all)
	}
	for _, match := range regexp.MustCompile("`(-[a-z]+ [A-Z]+)`").FindAllStringSubmatch(document, -1) {
		all = append(all, match[1])
	}
	for _, flags := range all {
		if _, err := parseFlags(strings.Fields(flags)); err != nil {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

// TestDocumentHasWorkloads: the document lists exactly the existing workloads.
func TestDocumentHasWorkloads(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "../docs/explanation/bench.md"), "| workload |")
	table, _, _ = strings.Cut(table, "\n\n")
	var said []string
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for _, match := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(cells[min(1, len(cells)-1)], -1) {
			said = append(said, match[1])
		}
	}
	chosen, err := chooseWorkloads(strings.Join(said, ","))
	if err != nil || len(chosen) != len(workloads) {
		t.Errorf("the document has %q: %v", said, err)
	}
}

// TestBefore: an earlier revision is one more peer, built from that revision and not from the tree.
func TestBefore(t *testing.T) {
	o, err := parseFlags([]string{"-before=HEAD~1", "-peers=echo,node-dns"})
	if err != nil || len(o.peers) != 3 || o.peers[2].name != "node-dns-before" {
		t.Fatalf("got %v, %v", o.peers, err)
	}
	t.Chdir(t.TempDir())
	program := func(says string) string {
		return "mkdir -p cmd/node-dns && printf 'package main\nvar version string\nfunc main() { println(\"" + says + "\", version) }\n' >cmd/node-dns/main.go"
	}
	for _, command := range []string{
		"git init -q . && printf 'module m\n' >go.mod", program("before"), "git add -A",
		"git -c user.name=n -c user.email=n@example.com commit -qm m", program("after"),
	} {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	dir := t.TempDir()
	if err := buildBefore(t.Context(), dir, "no-such-revision"); err == nil {
		t.Error("built a revision that does not exist")
	}
	if err := buildBefore(t.Context(), dir, "HEAD"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(dir, "node-dns-before")).CombinedOutput(); err != nil || string(out) != "before HEAD\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := exec.Command("git", "worktree", "list").Output(); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("got the worktrees\n%s, %v", out, err)
	}
}

func TestParseFlags(t *testing.T) {
	for _, test := range []struct{ name, flags, want string }{
		{"an unknown peer", "-peers=bind", `-peers: unknown name "bind"; expected one of echo, `},
		{"an unknown workload", "-workloads=hit", `-workloads: unknown name "hit"; expected one of hits, `},
		{"nothing to measure", "-rounds=0", "-rounds, -tries, -seconds and -seed must be at least 1"},
		{"more than flags", "hits", "-rounds, -tries, -seconds and -seed must be at least 1, and there are no other arguments"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parseFlags(strings.Fields(test.flags)); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v\nnot %s", err, test.want)
			}
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestResults: the table and chart of the last full run match its JSON, and the README shows the
// chart and names the machine.
func TestResults(t *testing.T) {
	report, err := result.Load("results/bench.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := result.Save(dir, report); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bench.json", "bench.txt", "bench.svg", "summary.svg"} {
		if got := read(t, "results/"+name); got != read(t, dir+"/"+name) {
			t.Errorf("%s does not match bench.json: go run ./bench -show bench/results/bench.json -out bench/results", name)
		}
	}
	all, err := chooseWorkloads("all")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		if !slices.ContainsFunc(report.Workloads, func(measured result.Workload) bool { return measured.Name == w.Name }) {
			t.Errorf("the last full run has no workload %s", w.Name)
		}
	}
	for _, name := range []string{"echo", "node-dns", "node-dns-forwarding", "node-dns-one-address", "unbound", "dnsdist", "dnsmasq", "coredns", "node-cache"} {
		if !slices.ContainsFunc(report.Peers, func(measured result.Peer) bool { return measured.Name == name }) {
			t.Errorf("the last full run has no peer %s", name)
		}
	}
	if report.Settings.Rounds < 6 {
		t.Errorf("the last full run has %d rounds, which give no spread", report.Settings.Rounds)
	}
	readme, where := read(t, "../README.md"), report.Machine
	for _, part := range []string{"bench/results/summary.svg", "bench/results/bench.svg", "bench/results/bench.txt", where.CPU, where.System, "Linux " + where.Kernel} {
		if !strings.Contains(readme, part) {
			t.Errorf("the README does not contain %q", part)
		}
	}
}

// TestWhyPage checks that docs/explanation/why.md has the costs of the last full run.
func TestWhyPage(t *testing.T) {
	report, err := result.Load("results/bench.json")
	if err != nil {
		t.Fatal(err)
	}
	measured := map[[2]string]result.Row{}
	for _, row := range result.Summarize(report) {
		measured[[2]string{row.Workload, row.Peer}] = row
	}
	// digits shows three significant digits.
	digits := func(value float64) string {
		switch {
		case value == 0:
			return "-"
		case value < 9.995:
			return fmt.Sprintf("%.2f", value)
		case value < 99.95:
			return fmt.Sprintf("%.1f", value)
		}
		return fmt.Sprintf("%.0f", value)
	}
	var table strings.Builder
	table.WriteString("| | cached names | new names | `pods` | MB after 10,000 names |\n|---|---|---|---|---|\n")
	for _, peer := range []struct{ name, shown string }{
		{"node-dns", "node-dns"},
		{"node-cache", "NodeLocal DNSCache"},
		{"coredns", "CoreDNS"},
		{"dnsmasq", "dnsmasq"},
		{"unbound", "unbound"},
		{"dnsdist", "dnsdist"},
	} {
		fmt.Fprintf(&table, "| %s |", peer.shown)
		for _, workload := range []string{"hits", "misses", "pods"} {
			fmt.Fprintf(&table, " %s |", digits(measured[[2]string{workload, peer.name}].Cost))
		}
		fmt.Fprintf(&table, " %.0f |\n", measured[[2]string{"memory", peer.name}].HitsMB)
	}
	golden.CheckTable(t, "../docs/explanation/why.md", "./bench -run TestWhyPage", table.String())
}
