package main

import (
	"context"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this program and of the running daemon",
		Long: `Show the versions of this program and of the running daemon.

Exit code 0: they are the same, or no daemon answers; 1: they differ.`,
		Example: `  node-dns version
  node-dns version -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := rootOf(cmd)
			if err != nil {
				return err
			}
			v := ownVersion()
			ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
			defer cancel()
			v.Ask(ctx, control.SocketPath(root))
			return show(cmd, v, v.Differ())
		},
	}
	addOutputFlag(cmd)
	return cmd
}

// ownVersion returns the version data that is built into this program.
func ownVersion() control.Versions {
	v := control.Versions{APIVersion: control.APIVersion, Kind: "Version", Version: version}
	v.Commit, v.Modified = strings.CutSuffix(revision, control.Dirty)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if revision != "" {
		return v
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}
