// Package soak runs node-dns for a long time under all kinds of load and faults. It proves that
// answers are lost only during an announced fault, and that resource usage does not grow.
package soak

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// program is node-dns without the race detector, which would use memory and time of its own; empty
// with -short.
var program string

var (
	length = flag.Duration("soak", time.Minute, "how long TestSoak lasts at least")
	rate   = flag.Int("soak.rate", 20_000, "queries a second that TestSoak asks at most")
)

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
