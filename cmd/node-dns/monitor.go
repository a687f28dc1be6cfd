package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/view"
)

// errEnough stops the display after enough queries.
var errEnough = errors.New("enough")

func newMonitorCommand() *cobra.Command {
	var filter control.MonitorFilter
	var namespace, pod string
	var count int
	cmd := &cobra.Command{
		Use:   "monitor",
		Short: "Show queries and changes as they happen",
		Long: `Show queries and changes as they happen: time, client (with its pod, where
the node's pods are watched), type and name, response code, source of the
answer, and how long it took.

The source is hit (the cache), stale (the cache, expired), cluster, local, an
upstream's address, refused, or failed. Queries of node-dns query and explain
have the client "control".

The daemon applies the filters. It never waits for a slow monitor: it counts the
queries that it skips, and the count is shown. Changes are the entries of the
journal, and pass every filter. Up to four monitors run at a time.

Exit code 0: interrupted, or --count queries were shown; 1: too many monitors;
2: a filter is invalid; 3: node-dns is not running, or ended; 4: permission
denied.`,
		Example: `  node-dns monitor --client 10.128.0.14
  node-dns monitor --pod shop/web-7d9f4
  node-dns monitor --name corp.example.com --rcode SERVFAIL
  node-dns monitor -o json --type AAAA | jq -r .name`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := view.NewFilter(filter.Client, filter.Name, filter.Type, filter.Rcode); err != nil {
				return usageError{fmt.Errorf("--%w", err)}
			}
			meant, err := whose(namespace, pod)
			if err != nil {
				return usageError{err}
			}
			filter.Namespace, filter.Pod = meant.Namespace, meant.Pod
			if count < 0 {
				return usageError{fmt.Errorf("--count %d: expected a number of queries", count)}
			}
			return showEvents(cmd, filter, count)
		},
	}
	addOutputFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&filter.Client, "client", "", "only queries from this address or network")
	flags.StringVarP(&namespace, "namespace", "n", "", "only queries from the pods of this namespace")
	flags.StringVar(&pod, "pod", "", "only queries from this pod: NAMESPACE/NAME, or NAME with --namespace")
	flags.StringVar(&filter.Name, "name", "", "only queries for this name and those below it; * stands for any characters")
	flags.StringVar(&filter.Type, "type", "", "only queries of this type, such as AAAA")
	flags.StringVar(&filter.Rcode, "rcode", "", "only queries with this response code, such as NXDOMAIN")
	flags.IntVar(&count, "count", 0, "stop after this many queries (0: never)")
	return cmd
}

// showEvents prints the events that match the filter, until count queries were shown (0 means no
// limit) or a signal arrives.
func showEvents(cmd *cobra.Command, filter control.MonitorFilter, count int) error {
	root, err := rootOf(cmd)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
	defer stop()
	out, left := cmd.OutOrStdout(), count
	err = control.Monitor(ctx, control.SocketPath(root), filter, func(e control.MonitorEvent) error {
		if err := writeEvent(out, e, outputOf(cmd)); err != nil {
			return err
		}
		if e.Kind == control.KindQuery {
			left--
		}
		if count > 0 && left == 0 {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// writeEvent writes one event: a line of text, a line of JSON, or a YAML document.
func writeEvent(w io.Writer, e control.MonitorEvent, output string) error {
	if output == "text" {
		return e.WriteText(w)
	}
	return writeOne(w, e, output)
}
