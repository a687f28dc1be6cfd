package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newWaitCommand() *cobra.Command {
	var what string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the daemon answers, for units that need names",
		Long: `Wait until the daemon answers, for units that need names: ExecStartPre=/usr/sbin/node-dns wait

Ready means that every address is bound and that there is an upstream nameserver to ask, as in node-dns status.

Exit code 0: it is ready; 1: it was not within the time, and the reason is shown; 3: it was not running.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if what != "ready" {
				return usageError{fmt.Errorf("--for %s: expected ready", what)}
			}
			if timeout < 0 {
				return usageError{fmt.Errorf("--timeout %v: expected a duration, or 0 for ever", timeout)}
			}
			return awaitReady(cmd, timeout)
		},
	}
	cmd.Flags().StringVar(&what, "for", "ready", "what to wait for: ready")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long at most; 0: for ever")
	return cmd
}
