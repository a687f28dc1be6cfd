// Package soak runs the program node-dns for long, under a load of all kinds and faults of all kinds, and holds that nothing is
// lost but by a fault that was announced, and that it takes no more of its machine at the end than at the beginning.
package soak

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// program is node-dns, as it is shipped: a race detector takes memory and time of its own.
var program string

var (
	length = flag.Duration("soak", time.Minute, "how long TestSoak lasts at least")
	rate   = flag.Int("soak.rate", 20_000, "queries a second that TestSoak asks at most")
)

func TestMain(m *testing.M) {
	flag.Parse()
	var remove func()
	program, remove = lab.Ship("./cmd/node-dns")
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}
