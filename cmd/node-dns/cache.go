package main

import (
	"bufio"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// cacheTimeout is the timeout for a flush or the statistics. A million entries take a second.
const cacheTimeout = 30 * time.Second

func newCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show or flush cached answers",
		Example: `  node-dns cache stats
  node-dns cache dump --zone corp.example.com
  node-dns cache flush www.example.com`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("cache: expected dump, flush or stats")}
		},
	}
	cmd.AddCommand(newCacheDumpCommand(), newCacheFlushCommand(), newCacheStatsCommand())
	return cmd
}

func newCacheDumpCommand() *cobra.Command {
	var part control.CachePart
	cmd := &cobra.Command{
		Use:   "dump [NAME | --zone ZONE]",
		Short: "Show cached answers, one record per line",
		Long: `Show cached answers, one record per line as in a zone file: name, seconds left,
class, type, data. A comment follows: the server that sent the record, its age,
and its question if that differs; whether it is stale, and thus used only while
no server answers; whether it answers queries with the DO or CD bit; and whether
the server validated it (AD). Answers without records (NXDOMAIN, NODATA) and
recent failures (SERVFAIL) are comments as a whole.

Queries are answered meanwhile, so changes during the output may be missing.

Exit code 0: done; 3: node-dns is not running; 4: permission denied.`,
		Example: `  node-dns cache dump
  node-dns cache dump www.example.com
  node-dns cache dump --zone corp.example.com -o json`,
		Args: atMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := setName(&part, args); err != nil {
				return err
			}
			if part.Name != "" && part.Zone != "" {
				return usageError{errors.New("cache dump: expected a name or --zone, not both")}
			}
			return dumpCache(cmd, part)
		},
	}
	cmd.Flags().StringVar(&part.Zone, "zone", "", "this `name` and all names below it")
	addOutputFlag(cmd)
	return cmd
}

// setName selects the given name, if any, and converts the part's name or zone to ASCII.
func setName(part *control.CachePart, args []string) error {
	if len(args) > 0 {
		if part.Name = args[0]; part.Name == "" {
			return usageError{errors.New(`"" is not a name; the root is "."`)}
		}
	}
	for _, name := range []*string{&part.Name, &part.Zone} {
		if *name == "" {
			continue
		}
		var err error
		if *name, err = toASCII(*name); err != nil {
			return usageError{err}
		}
	}
	return nil
}

func dumpCache(cmd *cobra.Command, part control.CachePart) error {
	root, err := rootOf(cmd)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	printer := &listPrinter{w: out, output: outputOf(cmd), kind: "CacheDump", key: "entries"}
	err = control.DumpCache(cmd.Context(), control.SocketPath(root), part, func(e control.CacheEntry) error { return printer.add(e) })
	if err == nil {
		err = printer.end()
	} else {
		err = printer.fail(err)
	}
	return errors.Join(err, out.Flush())
}

func newCacheFlushCommand() *cobra.Command {
	var part control.CachePart
	cmd := &cobra.Command{
		Use:   "flush NAME | --zone ZONE | --negative | --all",
		Short: "Remove a name, a zone or everything from the cache",
		Long: `Remove a name, a zone, negative answers or everything from the cache.

No later query gets an older answer. A response in flight still goes to the
clients that wait for it, but is not cached.

Exit code 0: done; 3: node-dns is not running; 4: permission denied.`,
		Example: `  node-dns cache flush www.example.com
  node-dns cache flush --zone corp.example.com
  node-dns cache flush --negative`,
		Args: atMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := setName(&part, args); err != nil {
				return err
			}
			if part.Parts() != 1 {
				return usageError{errors.New("cache flush: expected one of NAME, --zone ZONE, --negative, --all")}
			}
			return showFetched(cmd, func(ctx context.Context, path string) (control.CacheFlushed, error) {
				return control.FlushCache(ctx, path, part)
			})
		},
	}
	cmd.Flags().StringVar(&part.Zone, "zone", "", "this `name` and all names below it")
	cmd.Flags().BoolVar(&part.Negative, "negative", false, "negative answers (NXDOMAIN, NODATA) and recent failures")
	cmd.Flags().BoolVar(&part.All, "all", false, "everything")
	addOutputFlag(cmd)
	return cmd
}

func newCacheStatsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show cache size and hit rate",
		Long: `Show the size and content of the cache, and its hit rate.

Exit code 0: done; 3: node-dns is not running.`,
		Example: `  node-dns cache stats`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showFetched(cmd, control.FetchCacheStats)
		},
	}
	addOutputFlag(cmd)
	return cmd
}

// showFetched fetches a value from the daemon and shows it in the output format.
func showFetched[A page](cmd *cobra.Command, fetch func(ctx context.Context, path string) (A, error)) error {
	root, err := rootOf(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), cacheTimeout)
	defer cancel()
	value, err := fetch(ctx, control.SocketPath(root))
	if err != nil {
		return err
	}
	return show(cmd, value, false)
}
