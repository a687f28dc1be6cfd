// Package faults plays every row of the fault matrix against the program node-dns, and holds what it promises, by counts.
package faults

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/faultplan"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// program is node-dns, as it is shipped: a race detector takes memory that is counted here.
var program string

func TestMain(m *testing.M) {
	var remove func()
	program, remove = lab.Ship("./cmd/node-dns")
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

// TestFaults has a test for each row, named after it.
func TestFaults(t *testing.T) {
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

// TestWhatIsWrongIsFound: no row is content with an outcome in which nothing was right, or which cost too much.
func TestWhatIsWrongIsFound(t *testing.T) {
	for _, row := range faultplan.Rows() {
		for name, outcome := range map[string]faultplan.Outcome{
			"nothing asked":     {},
			"one wrong":         {Asked: 100, Right: 99, Wrong: 1, Stale: 100},
			"one silent":        {Asked: 100, Right: 99, Silent: 1, Stale: 100},
			"too many upstream": {Asked: 100, Right: 100, Stale: 100, Upstream: 10_001},
		} {
			if len(row.Faults(outcome)) == 0 {
				t.Errorf("%s: %s: no fault", row.Name, name)
			}
		}
	}
}
