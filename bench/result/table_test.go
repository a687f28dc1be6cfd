package result_test

import (
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/bench/result"
	"github.com/node-dns/node-dns/internal/test/golden"
)

// report has everything that the output must show: a peer that loses queries, one that was
// disturbed, one that failed, and one that is missing.
func report() result.Report {
	return result.Report{
		Schema: result.Schema, Taken: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC), Revision: "v1.2.3-4-gabcdef",
		Machine: result.Machine{
			CPU: "Example <CPU> & Co", Cores: 4, Used: []int{0, 1}, Memory: 25_300_000_000, Kernel: "6.1.0", System: "Debian GNU/Linux 12 (bookworm)",
		},
		Settings: result.Settings{Rounds: 6, Seconds: 1, Tries: 3, Foreign: 0.2, Seed: 7},
		Workloads: []result.Workload{
			{Name: "hits", Title: "names that are remembered"},
			{Name: "misses", Title: "names that are not"},
			{Name: "tcp", Title: "names over TCP"},
			{Name: "tcp-short-2k", Title: "a connection each"},
			{Name: "memory", Title: "what it holds"},
			{Name: "busy", Title: "for the table only", TableOnly: true},
		},
		Peers: []result.Peer{
			{Name: "echo", Version: "built from this tree"},
			{Name: "node-dns", Version: "node-dns dev"},
			{Name: "unbound", Version: "1.17.1"},
			{Name: "dnsdist", Version: "1.7.3"},
			{Name: "dnsmasq", Version: "2.90"},
		},
		Missing: []result.Missing{{Name: "node-cache", Why: "it could not be built"}},
		Runs: append(slicesOf("tcp", map[string][6]float64{
			"echo": {2, 2, 2.1, 2.2, 2, 2}, "node-dns": {4, 4.1, 4, 4, 4.2, 4.1}, "unbound": {8.2, 8, 8.1, 8, 8.2, 8}, "dnsdist": {8, 8.1, 8, 8.2, 8.1, 7.9},
		}), []result.Run{
			run("hits", "echo", 1, 3.0), run("hits", "echo", 2, 4.0), run("hits", "echo", 3, 3.5),
			run("hits", "node-dns", 1, 3.3), run("hits", "node-dns", 2, 4.2), run("hits", "node-dns", 3, 4.2),
			run("hits", "unbound", 1, 4.5), run("hits", "unbound", 2, 6.0), disturbed(run("hits", "unbound", 3, 4.4)),
			run("hits", "dnsdist", 1, 5.0), run("hits", "dnsdist", 2, 5.0), run("hits", "dnsdist", 3, 5.0),
			run("misses", "echo", 1, 3.0), run("misses", "node-dns", 1, 12), run("misses", "unbound", 1, 30), run("misses", "dnsdist", 1, 10),
			losing(run("misses", "dnsmasq", 1, 2)),
			run("tcp-short-2k", "node-dns", 1, 2100),
			run("busy", "echo", 1, 5), run("busy", "node-dns", 1, 6),
			{Workload: "memory", Peer: "node-dns", Round: 1, Sent: 1_000_000, Answered: 1_000_000, CPU: 11, Seconds: 30, HitsMB: 24, MissesMB: 70, Names: 1_000_000},
			{Workload: "memory", Peer: "unbound", Round: 1, Error: "unbound ended: no memory"},
		}...),
	}
}

// slicesOf returns six rounds of peers under a workload.
func slicesOf(workload string, costs map[string][6]float64) (runs []result.Run) {
	for peer, values := range costs {
		for i, cost := range values {
			runs = append(runs, run(workload, peer, i+1, cost))
		}
	}
	slices.SortStableFunc(runs, func(a, b result.Run) int { return cmp.Compare(a.Peer, b.Peer) })
	return runs
}

// run returns a run of 100,000 answers at this cost per answer.
func run(workload, peer string, round int, cost float64) result.Run {
	return result.Run{
		Workload: workload, Peer: peer, Round: round, Tries: 1, Foreign: 0.05, Sent: 100_000, Answered: 100_000, Seconds: 4, CPU: cost / 10,
		P50: 20, P99: 80 + cost, P999: 300 + 10*cost, Max: 1000 * float64(round),
	}
}

func disturbed(r result.Run) result.Run {
	r.Tries, r.Foreign = 3, 0.7
	return r
}

// losing makes half of the queries lost, which doubles the cost of the others.
func losing(r result.Run) result.Run {
	r.Lost, r.Answered = r.Sent/2, r.Sent/2
	return r
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := result.Write(&b, report()); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/table.txt", b.String())
}

func TestChart(t *testing.T) {
	chart := result.Chart(report())
	golden.Check(t, "testdata/chart.svg", chart)
	golden.Check(t, "testdata/summary.svg", result.Summary(report()))
	for decoder := xml.NewDecoder(strings.NewReader(chart)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("invalid XML: %v", err)
		}
	}
}

// TestSaved: a loaded report equals the saved one and looks the same.
func TestSaved(t *testing.T) {
	dir := t.TempDir()
	if err := result.Save(dir, report()); err != nil {
		t.Fatal(err)
	}
	loaded, err := result.Load(filepath.Join(dir, "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(report(), loaded); diff != "" {
		t.Errorf("(-saved +loaded)\n%s", diff)
	}
	other := report()
	other.Schema++
	if err := result.Save(dir, other); err != nil {
		t.Fatal(err)
	}
	if _, err := result.Load(filepath.Join(dir, "bench.json")); err == nil || !strings.Contains(err.Error(), "has schema 2, not 1") {
		t.Errorf("another schema: %v", err)
	}
}
