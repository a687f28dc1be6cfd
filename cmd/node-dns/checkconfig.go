package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/daemon"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

func newCheckConfigCommand() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Read the configuration as serve would, and name every fault",
		Long: `Read the configuration as serve would, and name every fault as FILE:LINE:COLUMN.

dnsmasq's files are part of it; an option of theirs that is known, and not followed, is named with the reason.

Where the Kubernetes API is watched it is asked which of the rights for that are missing; contrib/cluster-role.yaml
grants them.

Exit code 0: no fault in a file; 1: faults, and they are shown.`,
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
			return checkConfig(cmd, root, paths)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "read this file instead of /etc/node-dns/node-dns.yaml")
	return cmd
}

func checkConfig(cmd *cobra.Command, root string, paths nodeconfig.Paths) error {
	config, err := nodeconfig.Load(paths)
	faulty := map[string]bool{}
	for _, fault := range nodeconfig.Faults(err) {
		faulty[fault.File] = true
	}
	files, filesErr := dnsmasqconf.Load(dnsmasqconf.DefaultPaths(root))
	for _, fault := range nodeconfig.Faults(filesErr) {
		faulty[fault.File] = true
	}
	err = errors.Join(err, filesErr)
	if err != nil {
		fmt.Fprintln(cmd.OutOrStdout(), err)
	}
	for _, aside := range files.Aside {
		fmt.Fprintln(cmd.OutOrStdout(), aside)
	}
	for _, cost := range files.Costs() {
		fmt.Fprintln(cmd.OutOrStdout(), cost)
	}
	for _, file := range slices.Concat(config.Files, files.Files) {
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
	if len(config.Files)+len(files.Files) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "no configuration file: every default applies")
	}
	showRights(cmd, root, config)
	if err != nil {
		return errShown
	}
	return nil
}

// apiPatience is how long the API server may take to say what it allows. It may be away: that is no fault of a file.
const apiPatience = 3 * time.Second

// showRights says what of the Kubernetes API the configuration needs and does not get. The exit code is about the files:
// a node must start while its API server, or the administrator of its rights, is not there yet.
func showRights(cmd *cobra.Command, root string, config nodeconfig.Config) {
	ctx, cancel := context.WithTimeout(cmd.Context(), apiPatience)
	defer cancel()
	rights, err := daemon.CheckRights(ctx, root, config)
	out := cmd.OutOrStdout()
	switch {
	case err != nil:
		fmt.Fprintf(out, "%s: rights not checked: %v\n", rights.Kubeconfig, err)
	case rights.Kubeconfig != "" && len(rights.Missing) == 0:
		fmt.Fprintf(out, "%s: the Kubernetes API grants all rights that are needed\n", rights.Kubeconfig)
	}
	for _, right := range rights.Missing {
		fmt.Fprintf(out, "%s: the Kubernetes API denies: %s\n", rights.Kubeconfig, right)
	}
}
