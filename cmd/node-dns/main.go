// node-dns is the node's resolver (`node-dns serve`) and the tool to administer it.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Set by the linker: -X main.version=1.0.0 -X main.revision=abc, or abc-dirty for a tree with
// changes. Without a revision, Go's record of the repository is used (go help build: -buildvcs).
var (
	version  = "dev"
	revision string
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
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil || errors.Is(err, errShown) {
		return codeOf(err)
	}
	failed := newFailure(cmd, err)
	// Standard output may be what failed, so the error always goes to standard error too.
	_ = writeOne(root.OutOrStdout(), failed, outputOf(cmd))
	_ = failed.WriteText(stderr)
	return failed.ExitCode
}
