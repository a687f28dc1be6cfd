package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmePeers are the columns of the README's table, by their names in the results. dnsconfd
// configures unbound.
var readmePeers = []string{"node-dns", "node-cache", "dnsmasq", "unbound"}

// TestReadmeTable compares the numbers of the README's table with the last full run.
func TestReadmeTable(t *testing.T) {
	readme, results := read(t, "../README.md"), read(t, "results/bench.txt")
	_, table, _ := strings.Cut(results, "\n\nworkload ")
	head, rows, _ := strings.Cut(table, "\n")
	columns := regexp.MustCompile(`\s{2,}`)
	peers := columns.Split(strings.TrimSpace(head), -1)
	for workload, label := range map[string]string{
		"hits":   "cached names",
		"misses": "new names",
		"pods":   "`google.com` from pods",
	} {
		_, row, found := strings.Cut("\n"+rows, "\n"+workload+" ")
		if !found {
			t.Fatalf("the results have no workload %s", workload)
		}
		row, _, _ = strings.Cut(row, "\n")
		cells := columns.Split(strings.TrimSpace(row), -1)
		want := fmt.Sprintf("| µs of CPU per answer: %s |", label)
		for _, peer := range readmePeers {
			i := slices.Index(peers, peer)
			if i < 0 || i >= len(cells) {
				t.Fatalf("the results of %s have no peer %s in %q", workload, peer, peers)
			}
			cost, _, _ := strings.Cut(cells[i], " ")
			want += " " + strings.Trim(cost, "*≈") + " |"
		}
		if !strings.Contains(readme, want+"\n") {
			t.Errorf("the README has no row\n%s", want)
		}
	}
}
