package main

import (
	"context"
	"encoding/json"
	"fmt"
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
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("-o %s: expected text or json", output)}
			}
			root, err := rootOf(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
			defer cancel()
			status, err := control.FetchStatus(ctx, control.SocketPath(root))
			if err != nil {
				return err
			}
			return showStatus(cmd, status, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func showStatus(cmd *cobra.Command, status control.Status, output string) error {
	var err error
	if output == "json" {
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		err = encoder.Encode(status)
	} else {
		err = status.WriteText(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	if len(status.Problems) > 0 {
		return errShown
	}
	return nil
}
