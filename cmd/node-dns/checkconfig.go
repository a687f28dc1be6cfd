package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

func newCheckConfigCommand() *cobra.Command {
	var configFile string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Check the configuration files and list all errors",
		Long: `Check the configuration files as serve reads them, and list all errors as
FILE:LINE:COLUMN.

dnsmasq's files are included; known options that node-dns does not follow are
listed with the reason. For valid files it shows their settings, and those that
another file overrides. It also shows the addresses where node-dns would listen
on this node, and nameservers that it would ignore because they are this node.

If node-dns watches the Kubernetes API, missing rights are also listed;
contrib/cluster-role.yaml grants them.

With --quiet it only reads the files, does not check rights, and prints only
errors. The unit runs it this way before each start, for the journal and for
systemctl status.

Exit code 0: no errors and no missing rights; 1: at least one, and it is
printed. An API server that does not answer does not change the exit code.`,
		Example: `  node-dns check-config
  node-dns check-config --config /tmp/node-dns.yaml
  node-dns check-config --quiet`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := rootOf(cmd)
			if err != nil {
				return err
			}
			paths := nodeconfig.DefaultPaths(root)
			if cmd.Flags().Changed("config") && configFile == "" {
				return usageError{errors.New(`--config "": expected a file`)}
			}
			if configFile != "" {
				if _, err := os.Stat(configFile); err != nil { // as serve does
					return fmt.Errorf("reading the configuration: %w", err)
				}
				paths.NodeDNS = configFile
			}
			if quiet {
				check := doctor.CheckFiles(root, paths)
				return show(cmd, check, len(check.Faults) > 0)
			}
			return checkConfig(cmd, root, paths)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "read this `file` instead of /etc/node-dns/node-dns.yaml")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "only read the files, and print only errors")
	addOutputFlag(cmd)
	return cmd
}

// checkConfig checks all files and shows the result.
func checkConfig(cmd *cobra.Command, root string, paths nodeconfig.Paths) error {
	check := doctor.CheckConfig(cmd.Context(), root, paths)
	return show(cmd, check, len(check.Faults) > 0 || len(check.MissingRights) > 0)
}
