// node-dns is the node's resolver (`node-dns serve`) and the admin's tool for it.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// These are set by the linker: -X main.version=1.0.0 -X main.revision=abc, or abc-dirty of a tree with changes. Without a revision it is
// what Go notes of the repository that it builds in (go help build: -buildvcs).
var (
	version  = "dev"
	revision string
)

// Exit codes, the same for all commands.
const (
	exitOK = iota
	exitProblem
	exitUsage
	exitNotRunning
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	stderr := termtext.NewWriter(os.Stderr)
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(termtext.NewWriter(os.Stdout))
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	var mistake control.MistakeError // a daemon finds some later than we do
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errShown):
		return exitProblem
	case errors.As(err, &usage), errors.As(err, &mistake):
		termtext.WriteError(stderr, "node-dns", err)
		return exitUsage
	}
	termtext.WriteError(stderr, "node-dns", err)
	if errors.Is(err, control.ErrNotRunning) {
		return exitNotRunning
	}
	return exitProblem
}
