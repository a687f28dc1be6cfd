package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/supervise"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const (
	usualInterval = 2 * time.Second // as in watch(1)
	leastInterval = 100 * time.Millisecond
)

// interval is the value of --watch; 0 means that it was not given.
type interval time.Duration

func (i *interval) String() string { return time.Duration(*i).String() }
func (i *interval) Type() string   { return "interval" }

// Set parses a duration, or seconds as in watch(1).
func (i *interval) Set(text string) error {
	d, ok := parseDuration(text)
	if !ok || d < leastInterval {
		return fmt.Errorf("expected seconds or a duration, %v at least, such as 2 or 500ms", leastInterval)
	}
	*i = interval(d)
	return nil
}

// addWatchFlag adds --watch, whose interval may follow as a separate argument.
func addWatchFlag(cmd *cobra.Command, every *interval) {
	cmd.Flags().Var(every, "watch", "repeat at this interval until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = usualInterval.String()
	cmd.Args = usageArgs(func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && cmd.Flags().Changed("watch") && every.Set(args[0]) == nil {
			return nil
		}
		return noArguments(cmd, args)
	})
}

// watch repeats once until it is interrupted. On a terminal each output overwrites the previous
// one. If the daemon is away, watch waits for it.
func watch(cmd *cobra.Command, every interval, once func(ctx context.Context, w io.Writer) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
	defer stop()
	out := cmd.OutOrStdout()
	for first := true; ; first = false {
		var block bytes.Buffer
		err := once(ctx, termtext.NewWriter(&block))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil, errors.Is(err, errShown):
		case !isAway(err):
			return err
		default:
			block.Reset()
			if err := writeAway(&block, newFailure(cmd, err), outputOf(cmd)); err != nil {
				return err
			}
		}
		if err := writeBlock(out, block.String(), first); err != nil {
			return err
		}
		if !supervise.Sleep(ctx, time.Duration(every)) {
			return nil
		}
	}
}

// writeAway writes why there is no output in place of it.
func writeAway(w io.Writer, f failure, output string) error {
	if output == "json" || output == "yaml" {
		return writeOne(w, f, output)
	}
	_, err := fmt.Fprintf(w, "! %s: waiting for it\n", termtext.Lines(f.Error, "  "))
	return err
}

// isAway reports whether the daemon may be back soon: it is not running, ended, or hung during the
// request.
func isAway(err error) bool {
	var usage usageError
	var mistake control.MistakeError
	return !errors.Is(err, os.ErrPermission) && !errors.Is(err, control.ErrUnknown) && !errors.As(err, &usage) && !errors.As(err, &mistake)
}

// writeBlock writes one output, which must be escaped. On a terminal it overwrites the previous
// one, cut to the terminal's height.
func writeBlock(w io.Writer, text string, isFirst bool) error {
	size, isTerminal := sizeOf(w)
	switch {
	case isTerminal:
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if size.Row > 1 {
			lines = lines[:min(len(lines), int(size.Row)-1)]
		}
		// Clear to the end of each line and of the screen.
		text = strings.Join(lines, "\x1b[K\n") + "\x1b[K\n\x1b[J"
		if isFirst {
			text = "\x1b[2J" + text
		}
		text = "\x1b[?7l\x1b[H" + text + "\x1b[?7h" // cut long lines
	case !isFirst:
		text = "\n" + text
	}
	_, err := io.WriteString(termtext.Raw(w), text)
	return err
}
