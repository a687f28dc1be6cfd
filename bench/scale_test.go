package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// apiLoad is one line of results/scale.txt, per node unless it says otherwise.
type apiLoad struct {
	nodes                  float64
	lists, watches, others float64
	listsPerSecond         float64 // peak of all nodes
	kilobytes, cpu         float64 // cpu is the API server's CPU time in seconds
	rejected               float64
	memory, took           float64 // MiB of the API server, and seconds until all nodes follow
}

const scalePage = "../docs/explanation/scale.md"

// TestScalePage: the figures in docs/explanation/scale.md follow from the last measurement, which
// scripts/test-kube scale writes. A client repeats what the API server rejected, so the rows of a
// single start are those of events without rejected requests.
func TestScalePage(t *testing.T) {
	const (
		results       = "results/scale.txt"
		changes       = 20   // slices that the event "changes" changes
		all           = 5000 // nodes of the calculation
		podsPerSecond = 20   // of the controller manager
	)
	loads := readLoads(t, results)
	load := func(client, event string, nodes int) apiLoad { t.Helper(); return loads.of(t, client, event, nodes) }
	ours, again, theirs := load("node-dns", "start without state", 60), load("node-dns", "start", 60), load("coredns", "start", 60)
	saved := load("node-dns", "start with state", 60)
	few := load("coredns", "start", 50) // without rejected requests
	if saved.lists != 0 || few.watches != 0 {
		t.Errorf("a start with a saved state makes %v lists, and CoreDNS's informers %v watches without a list", saved.lists, few.watches)
	}
	changed := func(client string) float64 { return load(client, "changes", 60).kilobytes / changes }
	peak := func(client string) float64 {
		l := load(client, "API server restarts", 60)
		return l.listsPerSecond / l.nodes
	}
	hasLines(t, results,
		fmt.Sprintf("| start: requests | %.0f lists, %.0f watches, %.0f others | %.0f watches that begin with a list |", ours.lists, ours.watches, ours.others, few.lists),
		fmt.Sprintf("| start: received | %.1f MB | %.1f MB |", ours.kilobytes/1e3, theirs.kilobytes/1e3),
		fmt.Sprintf("| start: processor time of the API server | %.2f to %.2f s | %.2f s |", min(ours.cpu, again.cpu), max(ours.cpu, again.cpu), theirs.cpu),
		fmt.Sprintf("| start with a saved state | no list, %.0f kB, %.2f s | |", saved.kilobytes, saved.cpu),
		fmt.Sprintf("| one changed slice of ten endpoints | %.1f kB | %.1f kB |", changed("node-dns"), changed("coredns")),
		fmt.Sprintf("| the API server restarts: peak lists per second | %.1f | %.1f |", peak("node-dns"), peak("coredns")),
		fmt.Sprintf("| all start: received, processor time | %.1f GB, %.0f min | %.0f GB, %.0f min |",
			all*ours.kilobytes/1e6, all*ours.cpu/60, all*theirs.kilobytes/1e6, all*theirs.cpu/60),
		fmt.Sprintf("| rollout, `maxUnavailable: 10%%`: peak | %.0f MB/s, %.1f cores | %.0f MB/s, %.1f cores |",
			podsPerSecond*ours.kilobytes/1e3, podsPerSecond*ours.cpu, podsPerSecond*theirs.kilobytes/1e3, podsPerSecond*theirs.cpu),
		fmt.Sprintf("- A pod starts without a saved state. The RPM keeps it, so an upgrade costs %.0f MB.", all*saved.kilobytes/1e3),
	)
}

// TestScaleSavedPage is TestScalePage for the nodes that start with a saved state.
func TestScaleSavedPage(t *testing.T) {
	const results = "results/scale-saved.txt"
	loads := readLoads(t, results)
	row := func(title, event string) string {
		t.Helper()
		l := loads.of(t, "node-dns", event, 5000)
		return fmt.Sprintf("| %s | %.1f | %.1f | %.1f kB | %.1f ms | %.0f s |", title, l.lists, l.rejected, l.kilobytes, 1e3*l.cpu, l.took)
	}
	restart := loads.of(t, "node-dns", "API server restarts", 5000)
	hasLines(t, results,
		row("all start at once", "start with state"),
		row("one slice and one Service change", "change of one slice"),
		row("the API server restarts", "API server restarts"),
		fmt.Sprintf("The API server took at most %.1f GiB of memory. Until a node knows the cluster, the cluster's DNS", restart.memory/1024),
	)
}

// hasLines checks that the page has the lines that follow from the results.
func hasLines(t *testing.T, results string, lines ...string) {
	t.Helper()
	page := strings.Split(read(t, scalePage), "\n")
	for _, want := range lines {
		if !slices.Contains(page, want) {
			t.Errorf("%s lacks the line that follows from %s:\n%s", scalePage, results, want)
		}
	}
}

// apiLoads are lines of results by client, event and number of nodes.
type apiLoads map[string]apiLoad

func (l apiLoads) of(t *testing.T, client, event string, nodes int) apiLoad {
	t.Helper()
	load, ok := l[fmt.Sprintf("%s %s %d", client, event, nodes)]
	if !ok {
		t.Fatalf("no %s of %s with %d nodes was measured", event, client, nodes)
	}
	return load
}

var apiLoadLine = regexp.MustCompile(`^(\S+) +(\d+) nodes +\d+ services +(.+?) +lists ([\d.]+) watches ([\d.]+) checks [\d.]+ others ([\d.]+) a node.*; peak \d+/s, lists (\d+)/s, 429 (\d+), ([\d.]+) kB a node, API CPU ([\d.]+) ms a node, RSS (\d+) MiB, ([\d.]+)s$`)

func readLoads(t *testing.T, path string) apiLoads {
	t.Helper()
	loads := apiLoads{}
	for line := range strings.Lines(read(t, path)) {
		m := apiLoadLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		number := func(i int) float64 {
			n, err := strconv.ParseFloat(m[i], 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return n
		}
		loads[m[1]+" "+m[3]+" "+m[2]] = apiLoad{
			nodes: number(2), lists: number(4), watches: number(5), others: number(6),
			listsPerSecond: number(7), rejected: number(8) / number(2), kilobytes: number(9), cpu: number(10) / 1e3,
			memory: number(11), took: number(12),
		}
	}
	return loads
}
