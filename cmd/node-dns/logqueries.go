package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

func newLogQueriesCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "log-queries [on | extra | off]",
		Short: "Have queries and their answers written to the journal, or no more",
		Long: `Have queries and their answers written to the journal, or no more, in dnsmasq's words; without a word say how it is. With extra, as
by dnsmasq's log-queries=extra, each line begins with a number, which the lines of a query have in common, and who has asked.

It is not kept over a restart: log-queries in dnsmasq's files is. At most 100 queries a second are logged, and the others are counted.

Exit code 0: it is so; 3: node-dns is not running.`,
		Args:      atMostOneOf("on, extra or off"),
		ValidArgs: []string{"on", "extra", "off"},
		RunE: func(cmd *cobra.Command, args []string) error {
			var question control.LogQueriesQuestion
			if len(args) > 0 {
				on := args[0] != "off"
				question.On, question.Extra = &on, args[0] == "extra"
			}
			return showFetched(cmd, output, func(ctx context.Context, path string) (control.LogQueries, error) {
				return control.AskLogQueries(ctx, path, question)
			})
		},
	}
	addOutputFlag(cmd, &output)
	return cmd
}
