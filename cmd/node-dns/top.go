package main

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/top"
)

// errNoTerminal is the error for an output that is not a terminal.
var errNoTerminal = errors.New(`top needs a terminal: use "node-dns monitor" or "node-dns status --watch", which take -o json`)

func newTopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Show names, clients and servers live",
		Long: `Show live in a terminal: the most queried names, the clients and their pods,
who answers and how fast, the upstreams with their round-trip times and
failures, the cache, and slow and failing names.

The keys 1 to 6 and Tab choose a view, s and r sort it, / filters by a text, p
pauses, ? shows all keys, q quits.

Under load, cache hits are sampled. While it is open, top costs about 1 % of the
daemon's capacity; closed, it costs nothing. It counts as one of the four
monitors that run at a time.

Exit code 0: quit; 1: too many monitors, or there is no terminal; 3:
node-dns is not running; 4: permission denied.`,
		Example: "  node-dns top",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := rootOf(cmd)
			if err != nil {
				return err
			}
			if _, isTerminal := sizeOf(cmd.OutOrStdout()); !isTerminal || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
				return errNoTerminal
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
			defer stop()
			return top.Run(ctx, top.Config{
				Follow: func(ctx context.Context, show func(control.MonitorEvent) error) error {
					return control.Monitor(ctx, control.SocketPath(root), control.MonitorFilter{Sampled: true}, show)
				},
				IsAway: isAway,
			})
		},
	}
}
