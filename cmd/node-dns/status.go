package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// statusTimeout is the timeout for a daemon that hangs.
const statusTimeout = 5 * time.Second

// usualWait is the default timeout of --wait, the same as in `cilium status`.
const usualWait = 5 * time.Minute

// A screen fetches what a command shows about the daemon that listens on path, and whether it shows
// a problem. It is called once or repeatedly.
type screen func(ctx context.Context, path string) (p page, isProblem bool, err error)

func newStatusCommand() *cobra.Command {
	var every interval
	var brief, await bool
	limit := patience(usualWait)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether node-dns works: listeners, upstreams, problems",
		Long: `Show whether node-dns works: what it listens on, which servers it queries, what
manages resolv.conf, and each problem.

With --brief it is one line, for probes: "ready", "degraded: upstream
10.0.0.3:53 down", or "not ready: ...".

Exit code 0: no problem; 1: there is a problem, and it is shown; 3: node-dns is
not running. With --watch 0, when it is interrupted.`,
		Example: `  node-dns status
  node-dns status --brief
  node-dns status --wait --wait-duration 1m
  node-dns status --watch 1
  node-dns status -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case await:
				if err := awaitReady(cmd, time.Duration(limit)); err != nil {
					return err
				}
			case cmd.Flags().Changed("wait-duration"):
				return usageError{errors.New("--wait-duration requires --wait")}
			}
			return showView(cmd, every, func(ctx context.Context, path string) (page, bool, error) {
				status, err := control.FetchStatus(ctx, path)
				if b := status.Brief(); brief {
					return b, len(b.Reasons) > 0, err
				}
				return status, len(status.Problems) > 0, err
			})
		},
	}
	addWatchFlag(cmd, &every)
	addOutputFlag(cmd)
	cmd.Flags().BoolVar(&brief, "brief", false, "print one line, for probes")
	cmd.Flags().BoolVar(&await, "wait", false, "wait until it is ready, then show it")
	cmd.Flags().Var(&limit, "wait-duration", "maximum time of --wait, in seconds or as 1m30s; 0: forever")
	return cmd
}

// showView shows a screen in the output format, once or repeatedly.
func showView(cmd *cobra.Command, every interval, v screen) error {
	root, err := rootOf(cmd)
	if err != nil {
		return err
	}
	once := func(ctx context.Context, w io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		p, isProblem, err := v(ctx, control.SocketPath(root))
		if err != nil {
			return err
		}
		output, looks := outputOf(cmd), looksOf(cmd.OutOrStdout()) // the terminal size may change
		if every > 0 && output == "yaml" {
			fmt.Fprintln(w, "---") // separates the documents
		}
		return showOn(w, p, output, isProblem, looks)
	}
	if every > 0 {
		return watch(cmd, every, once)
	}
	return once(cmd.Context(), cmd.OutOrStdout())
}

// awaitReady waits until the daemon is ready; most 0 means no timeout.
func awaitReady(cmd *cobra.Command, most time.Duration) error {
	root, err := rootOf(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	return control.AwaitReady(ctx, control.SocketPath(root))
}
