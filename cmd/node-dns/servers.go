package main

import "github.com/spf13/cobra"

func newServersCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Show which servers are asked for which names, who said so, and what lost",
		Long: `Show which servers are asked for which names, who said so, and what lost.

Where several name servers for one domain the strongest wins: what is set over D-Bus, the command line, the cluster's
files, node-dns.yaml, dnsmasq's files, node-config.yaml, NetworkManager, a resolv.conf, and what was good before.

Exit code 0: all is well; 1: a server is down or missing, and it is shown; 3: node-dns is not running.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := fetchStatus(cmd, output)
			if err != nil {
				return err
			}
			list := status.ServerList()
			return show(cmd, list, output, list.Problems)
		},
	}
	addOutputFlag(cmd, &output)
	return cmd
}
