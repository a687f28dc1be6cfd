// Package faults runs every row of the fault matrix against the program node-dns, and checks its
// promises by counting.
package faults

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/faultplan"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// program is node-dns as shipped; empty with -short. The race detector would increase the memory
// use that is measured here.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	remove := func() {}
	if !testing.Short() {
		program, remove = lab.Ship("./cmd/node-dns")
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

// TestFaults runs each row as a subtest with its name.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds node-dns, and loads it for seconds")
	}
	for _, row := range faultplan.Rows() {
		t.Run(row.Name, func(t *testing.T) {
			if !row.Timed {
				t.Parallel()
			}
			n := newNode(t)
			outcome, err := row.Play(faultplan.Size{Length: 1500 * time.Millisecond, Part: 10}, n.start)
			if err != nil {
				t.Fatal(err)
			}
			faults := row.Faults(outcome)
			for _, fault := range faults {
				t.Error(fault)
			}
			t.Log(outcome)
			if len(faults) > 0 {
				t.Log(n.process.Output())
			}
		})
	}
}

// TestWhatIsWrongIsFound: no row accepts an outcome in which nothing succeeded, or which used too
// many resources.
func TestWhatIsWrongIsFound(t *testing.T) {
	for _, row := range faultplan.Rows() {
		for name, outcome := range map[string]faultplan.Outcome{
			"nothing asked":     {},
			"one wrong":         {Asked: 100, Right: 99, Wrong: 1, Stale: 100},
			"one silent":        {Asked: 100, Right: 99, Silent: 1, Stale: 100},
			"too many upstream": {Asked: 100, Right: 100, Stale: 100, Upstream: 10_001},
		} {
			if len(row.Faults(outcome)) == 0 {
				t.Errorf("%s: %s: got no fault", row.Name, name)
			}
		}
	}
}
