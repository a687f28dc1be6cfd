package main

import (
	"bufio"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// cacheTimeout bounds how long a flush, or the numbers, may take: a million entries take a second.
const cacheTimeout = 30 * time.Second

func newCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show what the daemon remembers, or have it forget some of that",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("cache: expected dump, flush or stats")}
		},
	}
	cmd.AddCommand(newCacheDumpCommand(), newCacheFlushCommand(), newCacheStatsCommand())
	return cmd
}

func newCacheDumpCommand() *cobra.Command {
	var output string
	var part control.CachePart
	cmd := &cobra.Command{
		Use:   "dump [NAME | --zone ZONE]",
		Short: "Show what is remembered, a record in a line as in a master file",
		Long: `Show what is remembered, a record in a line as in a master file: name, seconds left, class, type, data. The comment behind it says
which server it came from, how old it is, and for which question where that is another; whether it is stale, which is given out only
where no server answers; whether it is for queries with the bits DO or CD, and whether the server has validated it: AD. What does not exist
(NXDOMAIN, NODATA) and what failed a moment ago (SERVFAIL) are comments as a whole.

The entries come as they are found, and queries are answered meanwhile: what changes while they are shown may be missed.

Exit code 0: what there is was shown; 3: node-dns is not running.`,
		Args: atMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := setName(&part, args); err != nil {
				return err
			}
			if part.Name != "" && part.Zone != "" {
				return usageError{errors.New("cache dump: expected a name or --zone, not both")}
			}
			return dumpCache(cmd, part, output)
		},
	}
	cmd.Flags().StringVar(&part.Zone, "zone", "", "this name and all below it")
	addOutputFlag(cmd, &output)
	return cmd
}

// setName has the part be of the name that was given, if any.
func setName(part *control.CachePart, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if part.Name = args[0]; part.Name == "" {
		return usageError{errors.New(`"" is no name; the root is "."`)}
	}
	return nil
}

func dumpCache(cmd *cobra.Command, part control.CachePart, output string) error {
	root, err := rootToShow(cmd, output)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	printer := &listPrinter{w: out, output: output, kind: "CacheDump", key: "entries"}
	err = control.DumpCache(cmd.Context(), control.SocketPath(root), part, func(e control.CacheEntry) error { return printer.add(e) })
	if err == nil {
		err = printer.end()
	}
	return errors.Join(err, out.Flush())
}

func newCacheFlushCommand() *cobra.Command {
	var output string
	var part control.CachePart
	cmd := &cobra.Command{
		Use:   "flush NAME | --zone ZONE | --negative | --all",
		Short: "Have the daemon forget a name, a zone, what does not exist, or everything",
		Long: `Have the daemon forget a name, a zone, what does not exist, or everything.

Who asks afterwards gets no older answer: one that is under way goes to who waits for it, and is not remembered.

Exit code 0: it is forgotten; 3: node-dns is not running.`,
		Args: atMostOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := setName(&part, args); err != nil {
				return err
			}
			if part.Parts() != 1 {
				return usageError{errors.New("cache flush: expected one of NAME, --zone ZONE, --negative, --all")}
			}
			return showFetched(cmd, output, func(ctx context.Context, path string) (control.CacheFlushed, error) {
				return control.FlushCache(ctx, path, part)
			})
		},
	}
	cmd.Flags().StringVar(&part.Zone, "zone", "", "this name and all below it")
	cmd.Flags().BoolVar(&part.Negative, "negative", false, "what does not exist (NXDOMAIN, NODATA), and what failed a moment ago")
	cmd.Flags().BoolVar(&part.All, "all", false, "everything")
	addOutputFlag(cmd, &output)
	return cmd
}

func newCacheStatsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show how full the cache is, with what, and how often it had the answer",
		Long: `Show how full the cache is, with what, and how often it had the answer.

Exit code 0: the numbers were shown; 3: node-dns is not running.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showFetched(cmd, output, control.FetchCacheStats)
		},
	}
	addOutputFlag(cmd, &output)
	return cmd
}

// showFetched asks the daemon for a value, and shows it in the form of -o.
func showFetched[A page](cmd *cobra.Command, output string, fetch func(ctx context.Context, path string) (A, error)) error {
	root, err := rootToShow(cmd, output)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), cacheTimeout)
	defer cancel()
	value, err := fetch(ctx, control.SocketPath(root))
	if err != nil {
		return err
	}
	return show(cmd, value, output, nil)
}
