package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

func newServersCommand() *cobra.Command {
	var every interval
	var history bool
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Show which servers answer which names, and their sources",
		Long: `Show which servers answer which names, where they are configured, and which
sources lost.

If several sources name servers for one domain, the strongest wins: D-Bus, the
command line, the cluster's files, node-dns.yaml, dnsmasq's files,
node-config.yaml, NetworkManager, a resolv.conf, and the last good servers.

With --history it shows the last 32 changes of servers: when, what triggered
them, and the servers before and after. A restart keeps them.

Exit code 0: no problem; 1: a server is down or missing, and it is shown; 3:
node-dns is not running. With --watch 0, when it is interrupted.`,
		Example: `  node-dns servers
  node-dns servers --history
  node-dns servers --watch`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showView(cmd, every, func(ctx context.Context, path string) (page, bool, error) {
				if history {
					h, err := control.FetchServerHistory(ctx, path)
					return h, false, err
				}
				status, err := control.FetchStatus(ctx, path)
				list := status.ServerList()
				return list, len(list.Problems) > 0, err
			})
		},
	}
	addWatchFlag(cmd, &every)
	cmd.Flags().BoolVar(&history, "history", false, "show the last changes of servers")
	addOutputFlag(cmd)
	return cmd
}
