package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/control"
)

// statusTimeout bounds how long a stuck daemon is waited for.
const statusTimeout = 5 * time.Second

func newStatusCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the daemon listens on, whom it asks, and whose resolv.conf it is",
		Long: `Show what the daemon listens on, whom it asks, and whose resolv.conf it is.

Exit code 0: all is well; 1: there is a problem, and it is shown; 3: node-dns is not running.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := fetchStatus(cmd, output)
			if err != nil {
				return err
			}
			return show(cmd, status, output, status.Problems)
		},
	}
	addOutputFlag(cmd, &output)
	return cmd
}

// fetchStatus asks the daemon for what a command is to show in the form of -o.
func fetchStatus(cmd *cobra.Command, output string) (control.Status, error) {
	if err := checkOutput(output); err != nil {
		return control.Status{}, err
	}
	root, err := rootOf(cmd)
	if err != nil {
		return control.Status{}, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
	defer cancel()
	return control.FetchStatus(ctx, control.SocketPath(root))
}
