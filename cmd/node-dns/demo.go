package main

import (
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/demo"
)

func newDemoCommand() *cobra.Command {
	var serve bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo on loopback, without root or a cluster",
		Example: `  node-dns demo
  node-dns demo --serve`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// SIGHUP: the terminal was closed.
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
			defer stop()
			return demo.Run(ctx, demo.Config{Out: cmd.OutOrStdout(), Version: version, Serve: serve})
		},
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "keep the daemon running after the demo, for queries with dig")
	return cmd
}
