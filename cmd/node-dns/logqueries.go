package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

func newLogQueriesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log-queries [on | extra | off]",
		Short: "Turn query logging on or off",
		Long: `Turn query logging to the journal, in dnsmasq's format, on or off. Without an
argument, show whether it is on. With extra, each line begins with a number,
which the lines of one query share, and the client, as with dnsmasq's
log-queries=extra.

A restart turns it off, unless log-queries is set in dnsmasq's files. At most
100 queries a second are logged, and the others are counted.

Exit code 0: done; 3: node-dns is not running; 4: permission denied.`,
		Example: `  node-dns log-queries
  node-dns log-queries extra
  node-dns log-queries off`,
		Args:      atMostOneOf("on, extra or off"),
		ValidArgs: []string{"on", "extra", "off"},
		RunE: func(cmd *cobra.Command, args []string) error {
			var question control.LogQueriesQuestion
			if len(args) > 0 {
				on := args[0] != "off"
				question.On, question.Extra = &on, args[0] == "extra"
			}
			return showFetched(cmd, func(ctx context.Context, path string) (control.LogQueries, error) {
				return control.AskLogQueries(ctx, path, question)
			})
		},
	}
	addOutputFlag(cmd)
	return cmd
}
