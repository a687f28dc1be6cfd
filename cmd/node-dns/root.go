package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

// errShown stands for a problem that the output has shown already.
var errShown = errors.New("problem shown above")

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// newRootCommand is the tree of commands; `node-dns` alone is `node-dns status`.
func newRootCommand() *cobra.Command {
	status := newStatusCommand()
	root := &cobra.Command{
		Use:           "node-dns",
		Short:         "One DNS agent for a Kubernetes node: cluster names and the site's names from one address",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
	}
	// Cobra would write the version by a template, and a program with text/template keeps every exported method of every
	// type, as a template may call it by name: 14 % of node-dns, of which the kernel maps most.
	asked := root.Flags().BoolP("version", "v", false, "version for node-dns")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "node-dns", version)
			return err
		}
		return status.RunE(cmd, args)
	}
	root.PersistentFlags().String("root", "/", "work on the tree below this directory")
	root.Flags().AddFlagSet(status.Flags())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		status,
		newServersCommand(),
		newQueryCommand(),
		newExplainCommand(),
		newMonitorCommand(),
		newTopCommand(),
		newLogQueriesCommand(),
		newCacheCommand(),
		newServeCommand(),
		newWaitCommand(),
		newCheckConfigCommand(),
		newDoctorCommand(),
		newRestoreCommand(),
		newVersionCommand(),
		newMigrateCommand(),
		newDemoCommand(),
	)
	addCobrasCommands(root)
	return root
}

// usageArgs marks the errors of an argument check as usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// rootOf is the directory of --root, absolute: a relative one must not mean the host's own files.
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
