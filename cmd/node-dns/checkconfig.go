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
	var configFile, output string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Check the configuration files, and name every fault",
		Long: `Check the configuration files as serve reads them, and name every fault as
FILE:LINE:COLUMN.

dnsmasq's files are included; known options that node-dns does not follow are
named with the reason. For valid files it shows what they set, and what another
file overrides; for all of them, where node-dns would listen on this node, and
which nameservers it would not ask because they are this node.

If the Kubernetes API is watched, it is asked which rights are missing;
contrib/cluster-role.yaml grants them.

With --quiet it reads the files only, does not check rights, and prints nothing
but faults. The unit runs it so before each start, for the journal and for
systemctl status.

Exit code 0: no faults and no missing rights; 1: at least one, and it is
printed. An API server that does not answer does not change the exit code.`,
		Example: `  node-dns check-config
  node-dns check-config --config /tmp/node-dns.yaml
  node-dns check-config --quiet`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := rootToShow(cmd, output)
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
				return showFaults(cmd, check, len(check.Faults) > 0, output)
			}
			return checkConfig(cmd, root, paths, output)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "read this `file` instead of /etc/node-dns/node-dns.yaml")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "read the files, ask nobody, and show nothing but faults")
	addOutputFlag(cmd, &output)
	return cmd
}

// checkConfig checks all files and shows the result.
func checkConfig(cmd *cobra.Command, root string, paths nodeconfig.Paths, output string) error {
	check := doctor.CheckConfig(cmd.Context(), root, paths)
	return showFaults(cmd, check, len(check.Faults) > 0 || len(check.MissingRights) > 0, output)
}

// showFaults shows the result. faulty determines the exit code.
func showFaults(cmd *cobra.Command, found page, faulty bool, output string) error {
	if err := show(cmd, found, output, nil); err != nil {
		return err
	}
	if faulty {
		return errShown
	}
	return nil
}
