package result

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/faultplan"
)

func faultReport() FaultReport {
	return FaultReport{
		Schema: Schema, Taken: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), Revision: "abc", Machine: Machine{CPU: "a CPU", Used: []int{0, 1}}, Seconds: 6,
		Peers:   []Peer{{Ours, "abc"}, {"dnsmasq", "2.90"}},
		Missing: []Missing{{"unbound", "not there"}},
		Rows: []FaultRow{
			{Name: "A black-holed", Promise: "100 %", Runs: []FaultRun{
				{Peer: Ours, Outcome: faultplan.Outcome{Asked: 10_000, Right: 9999, Late: 1, P50: 0.31, P99: 30, Worst: 1044.4, Upstream: 15_000}},
				{Peer: "dnsmasq", Outcome: faultplan.Outcome{
					Asked: 10, Right: 5, Wrong: 1, Silent: 2, Failed: 2, Upstream: 10,
					Facts: []faultplan.Fact{{Name: "CPU, s", Value: 0.123456}, {Name: "nothing", Value: 0}},
				}},
			}},
			{Name: "alone", Promise: "it lives", Runs: []FaultRun{{Peer: Ours, Error: "it ended"}}},
		},
	}
}

func TestMarkdown(t *testing.T) {
	const want = `2026-11-22 03:00 UTC, abc; a CPU, 2 cores; faults of 6 s

Not measured: unbound: not there

| fault | promise | node-dns | dnsmasq 2.90 |
|---|---|---|---|
| A black-holed | 100 % | 99.9 %, 1 late, 0.31 / 30.0 / 1044 ms, 1.5× | 50 %, 1 **wrong**, 2 silent, 2 failed, 1.0×, CPU 0.1235 s |
| alone | it lives | it ended | - |
`
	if got := Markdown(faultReport()); got != want {
		t.Errorf("got\n%s\nnot\n%s", got, want)
	}
}

func TestSaveFaults(t *testing.T) {
	dir := t.TempDir()
	if err := SaveFaults(dir, faultReport()); err != nil {
		t.Fatal(err)
	}
	got, err := LoadFaults(dir + "/faults.json")
	if err != nil || !reflect.DeepEqual(got, faultReport()) {
		t.Errorf("%+v\n%v", got, err)
	}
	if _, err := LoadFaults(dir + "/faults.md"); err == nil || !strings.HasPrefix(err.Error(), "loading a report: ") {
		t.Errorf("loading the table as a report: %v", err)
	}
}
