package netns

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

var (
	dashboardOut  = flag.String("dashboard.out", "", "the file that TestDashboardRun writes what Prometheus answered to; none: it is not kept")
	dashboardTime = flag.Duration("dashboard.time", 12*time.Second, "how long TestDashboardRun has the node asked")
)

// A boardRun has Prometheus's answers to the dashboard's queries after a run, for
// scripts/dashboard-png to draw.
type boardRun struct {
	From, To time.Time
	Step     float64                            // seconds
	Panels   map[int]map[string]json.RawMessage // by the panel's ID and the target's refId: the data of /api/v1/query_range
}

// A board is the part of contrib/grafana/node-dns.json that this test reads.
type board struct {
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ RefID, Expr string }
	}
}

// TestDashboardRun simulates an eventful time on a node under all kinds of load, with a Prometheus.
// Afterwards no panel of the dashboard is empty. `make dashboard-png` makes it last ten minutes and
// draws the result.
func TestDashboardRun(t *testing.T) {
	lab.NeedPrograms(t, "prometheus")
	var shown board
	skimJSON(t, "../../contrib/grafana/node-dns.json", &shown)
	n := newBoardNode(t)
	p := n.startPrometheus(max(time.Second, (*dashboardTime / 120).Truncate(time.Second)))
	run := boardRun{From: time.Now(), Step: p.every.Seconds(), Panels: map[int]map[string]json.RawMessage{}}
	n.play(*dashboardTime)
	run.To = time.Now()

	for _, panel := range shown.Panels {
		for _, target := range panel.Targets {
			data, values := p.ask(target.Expr, run.From, run.To)
			if values == 0 {
				t.Errorf("%s, %s: no data for %s", panel.Title, target.RefID, target.Expr)
			}
			if run.Panels[panel.ID] == nil {
				run.Panels[panel.ID] = map[string]json.RawMessage{}
			}
			run.Panels[panel.ID][target.RefID] = data
		}
	}
	if n := len(run.Panels); n < 30 {
		t.Errorf("only %d panels", n)
	}
	if *dashboardOut != "" {
		run.write(t, *dashboardOut)
	}
}

func (run boardRun) write(t *testing.T, path string) {
	t.Helper()
	data, err := json.Marshal(run)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func skimJSON(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
