// Package soak runs the program node-dns for long, under a load of all kinds and faults of all kinds, and holds that nothing is
// lost but by a fault that was announced, and that it takes no more of its machine at the end than at the beginning.
package soak

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// program is node-dns, as it is shipped: a race detector takes memory and time of its own.
var program string

var (
	length = flag.Duration("soak", time.Minute, "how long TestSoak lasts at least")
	rate   = flag.Int("soak.rate", 20_000, "queries a second that TestSoak asks at most")
)

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "node-dns-soak")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "node-dns")
	build := exec.Command("go", "build", "-o", program, "../../cmd/node-dns")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("building node-dns: %v\n%s", err, text))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}
