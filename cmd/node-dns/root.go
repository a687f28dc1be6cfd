package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

// newRootCommand returns all commands. `node-dns` alone is `node-dns status`.
func newRootCommand() *cobra.Command {
	status := newStatusCommand()
	root := &cobra.Command{
		Use:   "node-dns",
		Short: "One DNS agent for a Kubernetes node: cluster names and the site's names from one address",
		Long: `One DNS agent for a Kubernetes node: cluster names and the site's names from
one address.

Without a command it does what "node-dns status" does.

Exit codes of all commands: 0 done, 1 a problem was found, 2 invalid command
line, 3 the daemon is not running, 4 permission denied.`,
		Example: `  node-dns doctor                      what is wrong with this node's DNS, and how to fix it
  node-dns query web.shop -n shop      who answers a name
  node-dns explain google.com -n shop  which queries a pod's lookup sends
  node-dns monitor --rcode SERVFAIL    which queries fail now`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		// It runs before every command, because no other command has such a function.
		PersistentPreRunE: checkOutput,
	}
	// Cobra prints the version with a template. A program that uses text/template keeps every
	// exported method of every type, because a template may call it by name. That would be 14 % of
	// node-dns, most of which the kernel maps into memory.
	asked := root.Flags().BoolP("version", "v", false, "version for node-dns")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "node-dns", version)
			return err
		}
		return status.RunE(cmd, args)
	}
	root.PersistentFlags().String("root", "/", "work on the tree below this `directory`")
	root.Flags().AddFlagSet(status.Flags())
	root.SetFlagErrorFunc(flagFault)
	addGroup(root, "See what node-dns does:", status, newServersCommand(), newMonitorCommand(), newTopCommand(), newLogQueriesCommand(), newCacheCommand())
	addGroup(root, "Look up names:", newQueryCommand(), newExplainCommand())
	addGroup(root, "Find and fix problems:", newDoctorCommand(), newCheckConfigCommand(), newRestoreCommand())
	addGroup(root, "Set up and run:", newMigrateCommand(), newServeCommand(), newWaitCommand(), newDemoCommand())
	root.AddCommand(newVersionCommand())
	addCobrasCommands(root)
	addCompletions(root)
	return root
}

// addGroup adds a group of commands, which the summary shows below title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		root.AddCommand(cmd)
	}
}

// usageArgs turns errors of an argument check into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// rootOf returns the absolute path of --root. A relative path must not refer to the host's own
// files.
func rootOf(cmd *cobra.Command) (string, error) {
	given, err := cmd.Flags().GetString("root")
	if err != nil {
		return "", err
	}
	root, err := filepath.Abs(given)
	if err != nil || given == "" {
		return "", usageError{fmt.Errorf("--root %q: expected a directory", given)}
	}
	return root, nil
}
