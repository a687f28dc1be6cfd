package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) {
	testscript.Main(waiting{m}, map[string]func(){
		"node-dns": func() {
			revision = "c0ffee-dirty" // Go records no repository in test binaries
			os.Exit(run(context.Background(), os.Args[1:]))
		},
	})
}

// waiting runs the tests of this package, which mostly wait for programs. Only Run may parse the
// flags, because a process of the test binary that stands in for a program does not call Run.
type waiting struct{ *testing.M }

func (w waiting) Run() int {
	lab.Overlap(16)
	return w.M.Run()
}
