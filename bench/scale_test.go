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
	kilobytes, cpu         float64 // cpu is that of the API server in seconds
}

// TestScalePage: the figures in docs/explanation/scale.md follow from the last measurement, which
// scripts/test-kube scale writes. A client repeats what the API server rejected, so the rows of a
// single start are those of events without rejected requests.
func TestScalePage(t *testing.T) {
	const (
		page, results = "../docs/explanation/scale.md", "results/scale.txt"
		changes       = 20   // slices that the event "changes" changes
		all           = 5000 // nodes of the calculation
		podsPerSecond = 20   // of the controller manager
	)
	loads := readLoads(t, results)
	load := func(client, event string, nodes int) apiLoad {
		t.Helper()
		l, ok := loads[fmt.Sprintf("%s %s %d", client, event, nodes)]
		if !ok {
			t.Fatalf("%s has no %s of %s with %d nodes", results, event, client, nodes)
		}
		return l
	}
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
	lines := strings.Split(read(t, page), "\n")
	for _, want := range []string{
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
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s lacks the line that follows from %s:\n%s", page, results, want)
		}
	}
}

var apiLoadLine = regexp.MustCompile(`^(\S+) +(\d+) nodes +\d+ services +(.+?) +lists ([\d.]+) watches ([\d.]+) checks [\d.]+ others ([\d.]+) a node.*; peak \d+/s, lists (\d+)/s, .* ([\d.]+) kB a node, API CPU ([\d.]+) ms a node,`)

// readLoads returns the lines by client, event and number of nodes.
func readLoads(t *testing.T, path string) map[string]apiLoad {
	t.Helper()
	loads := map[string]apiLoad{}
	for line := range strings.Lines(read(t, path)) {
		m := apiLoadLine.FindStringSubmatch(line)
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
			listsPerSecond: number(7), kilobytes: number(8), cpu: number(9) / 1e3,
		}
	}
	return loads
}
