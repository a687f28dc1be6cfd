// kubectl-node_dns is a plugin of kubectl: it asks the node-dns of all nodes of a cluster, and
// summarizes the answers. kubectl runs it as `kubectl node-dns`.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/fleet"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Set by the linker: -X main.version=1.0.0 -X main.revision=abc.
var (
	version  = "dev"
	revision string
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	stderr := termtext.NewWriter(os.Stderr)
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(termtext.NewWriter(os.Stdout))
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var shown shownError
	switch {
	case err == nil:
		return fleet.ExitOK
	case errors.As(err, &shown):
		return shown.code
	}
	termtext.WriteError(stderr, displayName, withHint(cmd, err))
	return codeOf(err)
}

// shownError stands for problems that are already in the output.
type shownError struct{ code int }

func (shownError) Error() string { return "problem shown above" }

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errNoPods means that node-dns runs in no pod.
var errNoPods = errors.New("no pod of node-dns")

// codeOf returns the exit code for an error. The codes are the same as those of node-dns.
func codeOf(err error) int {
	switch {
	case errors.As(err, new(usageError)):
		return fleet.ExitUsage
	case errors.Is(err, errNoPods):
		return fleet.ExitNotRunning
	case errors.Is(err, os.ErrPermission):
		return fleet.ExitDenied
	}
	return fleet.ExitProblem
}

// withHint adds the next step to an error.
func withHint(cmd *cobra.Command, err error) error {
	switch codeOf(err) {
	case fleet.ExitUsage:
		return errors.New(err.Error() + `; see "` + cmd.CommandPath() + ` --help"`)
	case fleet.ExitDenied:
		return errors.New(err.Error() + "\nask an admin for the rights in docs/howto/fleet.md")
	}
	return err
}
