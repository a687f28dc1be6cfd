package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newWaitCommand() *cobra.Command {
	var what string
	timeout := patience(30 * time.Second)
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the daemon is ready, for units that need DNS",
		Long: `Wait until the daemon is ready, for units that need DNS:
ExecStartPre=/usr/sbin/node-dns wait

Ready means that every address is bound and an upstream nameserver is known, as
in node-dns status.

Exit code 0: ready; 1: not ready within the time, and the reason is shown; 3:
not running within the time.`,
		Example: `  node-dns wait
  node-dns wait --for=ready --timeout=60s`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if what != "ready" {
				return usageError{fmt.Errorf("--for %s: expected ready", what)}
			}
			return awaitReady(cmd, time.Duration(timeout))
		},
	}
	cmd.Flags().StringVar(&what, "for", "ready", "the `condition` to wait for: ready")
	cmd.Flags().Var(&timeout, "timeout", "maximum time, in seconds or as 1m30s; 0: forever")
	return cmd
}
