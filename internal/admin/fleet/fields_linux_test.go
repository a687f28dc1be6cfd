package fleet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/node-dns/node-dns/internal/admin/control"
	doctors "github.com/node-dns/node-dns/internal/admin/doctor"
)

// TestFields: the fields that judge reads are those that node-dns writes.
func TestFields(t *testing.T) {
	down := time.Date(2026, 11, 27, 14, 2, 0, 0, time.UTC)
	status := control.Status{Kind: "Status", Version: "1.4.0", Routes: []control.Route{
		{Domain: "corp.example.", Servers: []control.Server{{Address: "10.0.0.2", State: "down", Since: down, Error: "timeout"}}},
		{Domain: ".", Servers: []control.Server{{Address: "10.0.0.3", State: "up"}}},
	}}
	status.Problems = append(status.DownServers(), "not ready")
	found := control.Answer{Type: "A", Rcode: "NOERROR", Answer: []control.Record{{Type: "A", Data: "192.0.2.1"}}}
	const isDown = "10.0.0.2 (for corp.example.) is down: timeout"
	left := func(command string) Finding {
		return Finding{
			Level: Warn, What: "not asked: node-dns 1.3.9 at 10.0.0.7:53 serves the node instead of the pod",
			Fix: "if the node has the RPM: kubectl debug node/NODE -it --profile=sysadmin --image=busybox -- chroot /host node-dns " + command,
		}
	}
	tests := []struct {
		command  string
		output   any
		findings []Finding
		facts    []Fact
	}{
		{"status", status, []Finding{{Level: Fail, What: isDown, Since: down}, {Level: Fail, What: "not ready"}}, []Fact{{"version", "1.4.0"}}},
		{
			"servers", status.ServerList(),
			[]Finding{{Level: Fail, What: isDown, Since: down}},
			[]Fact{{"server", "10.0.0.2 for corp.example. down"}, {"server", "10.0.0.3 for . up"}},
		},
		{
			"doctor",
			doctors.Report{Kind: "Doctor", Version: "1.4.0", Findings: []doctors.Finding{
				{Level: doctors.OK, What: "fine"}, {Level: doctors.Warn, What: "late", Fix: "hurry"}, {Level: doctors.Fail, What: "broken", Fix: "repair"},
			}},
			[]Finding{{Level: Fail, What: "broken", Fix: "repair"}, {Level: Warn, What: "late", Fix: "hurry"}},
			[]Fact{{"version", "1.4.0"}},
		},
		{"status", control.Status{Kind: "Status", Version: "1.4.0", LeftTo: "node-dns 1.3.9 at 10.0.0.7:53"}, []Finding{left("status")}, []Fact{}},
		{"doctor", doctors.Report{Kind: "Doctor", Version: "1.4.0", LeftTo: "node-dns 1.3.9 at 10.0.0.7:53"}, []Finding{left("doctor")}, []Fact{}},
		{"servers", control.Status{Problems: []string{"no upstream nameserver is known"}, LeftTo: "node-dns 1.3.9 at 10.0.0.7:53"}.ServerList(), []Finding{left("servers")}, []Fact{}},
		{"query", control.Lookup{Kind: "Lookup", Search: control.Search{LeftTo: "node-dns 1.3.9 at 10.0.0.7:53"}}, []Finding{left("query")}, []Fact{}},
		{"explain", control.Explanation{Kind: "Explanation", Search: control.Search{LeftTo: "node-dns 1.3.9 at 10.0.0.7:53"}}, []Finding{left("explain")}, []Fact{}},
		{"query", control.Lookup{Kind: "Lookup", Found: true, Steps: []control.Step{{Answers: []control.Answer{found}}}}, nil, []Fact{{"answer", "A 192.0.2.1"}}},
		{"query", control.Lookup{Kind: "Lookup", Steps: []control.Step{{Answers: []control.Answer{{Type: "AAAA", Rcode: "NOERROR"}}}}}, []Finding{{Level: Fail, What: "db was not found"}}, []Fact{{"answer", "no AAAA record"}}},
		{
			"explain",
			control.Explanation{Kind: "Explanation", Problems: []string{"db was not found"}, Libraries: []control.Behavior{{Library: "glibc", Queries: 8}}},
			[]Finding{{Level: Fail, What: "db was not found"}},
			[]Fact{{"queries", "glibc 8"}},
		},
	}
	for _, test := range tests {
		t.Run(test.command, func(t *testing.T) {
			output, err := json.Marshal(test.output)
			if err != nil {
				t.Fatal(err)
			}
			got := judge(Command{Name: test.command, Args: []string{"--", "db"}}, Target{Node: "a"}, Output{Stdout: output})
			if diff := cmp.Diff(test.findings, got.Findings, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.facts, got.Facts); diff != "" {
				t.Error(diff)
			}
		})
	}
}
