package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

func newCheckConfigCommand() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Read the configuration as serve would, and name every fault",
		Long: `Read the configuration as serve would, and name every fault as FILE:LINE:COLUMN.

Exit code 0: no fault; 1: faults, and they are shown.`,
		Args: usageArgs(cobra.NoArgs),
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
				if _, err := os.Stat(configFile); err != nil { // as serve would
					return fmt.Errorf("reading the configuration: %w", err)
				}
				paths.NodeDNS = configFile
			}
			return checkConfig(cmd, paths)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "read this file instead of /etc/node-dns/node-dns.yaml")
	return cmd
}

func checkConfig(cmd *cobra.Command, paths nodeconfig.Paths) error {
	config, err := nodeconfig.Load(paths)
	faulty := map[string]bool{}
	for _, fault := range nodeconfig.Faults(err) {
		faulty[fault.File] = true
	}
	if err != nil {
		fmt.Fprintln(cmd.OutOrStdout(), err)
	}
	for _, file := range config.Files {
		if !faulty[file] {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", file)
		}
	}
	if config.FactsFile != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: what the cluster's file says, which may not be read here\n", config.FactsFile)
	}
	if config.FactsWanted != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: origin-dns-dispatcher apply, as root, reads it\n", config.FactsWanted)
	}
	if len(config.Files) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "no configuration file: every default applies")
	}
	if err != nil {
		return errShown
	}
	return nil
}
