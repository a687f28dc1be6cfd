package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const usage = `Usage:
  origin-dns-dispatcher IFACE ACTION                    handle a NetworkManager event while node-dns runs; always exit 0
  origin-dns-dispatcher apply [--capture-only]          bring this host's DNS files up to date
  origin-dns-dispatcher restore [--if-ours] [--purge] [--dry-run]
                                                        restore the original resolv.conf
  origin-dns-dispatcher plan [-o text|json]             show what apply would change, and why
  origin-dns-dispatcher stopping                        run by node-dns.service before it stops node-dns
  origin-dns-dispatcher stopped                         run by node-dns.service after node-dns has stopped
Every command takes --root DIR to work on the tree below DIR.
Exit codes of the commands: 0 /etc/resolv.conf is as it should be (plan, --dry-run: would be), 1 it is not, and the
output says why, 2 usage error.
`

const (
	exitOK = iota
	exitProblem
	exitUsage
)

// command is one parsed invocation.
type command struct {
	verb    string // apply, restore, plan, stopping, stopped, or "" if NetworkManager runs it
	event   nm.Event
	root    string
	ifOurs  bool
	purge   bool // restore: also remove everything else
	dryRun  bool
	capture bool // apply: leave resolv.conf alone
	output  string
}

// parseCommand distinguishes NetworkManager's form from the verbs. An interface may be called
// "apply", but only NetworkManager also sets the action in the environment.
func parseCommand(args []string, fromNetworkManager bool) (command, error) {
	if !fromNetworkManager && len(args) > 0 {
		switch args[0] {
		case "apply", "restore", "plan", "stopping", "stopped":
			return parseVerb(args[0], args[1:])
		case "help", "-h", "--help":
			return command{}, flag.ErrHelp
		}
	}
	event, err := nm.ParseEvent(args, os.Environ())
	return command{event: event, root: "/"}, err
}

func parseVerb(verb string, args []string) (command, error) {
	c := command{verb: verb}
	flags := c.flags()
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("%s takes no argument %q", verb, flags.Arg(0))
	}
	root, err := filepath.Abs(c.root)
	if err != nil || c.root == "" {
		return c, fmt.Errorf("--root %q: expected a directory", c.root)
	}
	c.root = root
	if c.output != "" && c.output != "text" && c.output != "json" {
		return c, fmt.Errorf("-o %s: expected text or json", c.output)
	}
	return c, nil
}

func (c *command) flags() *flag.FlagSet {
	flags := flag.NewFlagSet(c.verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.root, "root", "/", "")
	switch c.verb {
	case "apply":
		flags.BoolVar(&c.capture, "capture-only", false, "")
	case "restore":
		flags.BoolVar(&c.ifOurs, "if-ours", false, "")
		flags.BoolVar(&c.purge, "purge", false, "")
		flags.BoolVar(&c.dryRun, "dry-run", false, "")
	case "plan":
		flags.StringVar(&c.output, "o", "text", "")
	}
	return flags
}

func (c command) timeout() time.Duration {
	if c.verb == "" {
		return eventTimeout
	}
	return verbTimeout
}

// run executes the command and returns the exit code. NetworkManager's form always exits 0: a
// failed hook must never stop an activation.
func (c command) run(ctx context.Context, stdout, stderr io.Writer) int {
	var progress hostdns.Progress
	runner := hostdns.Runner{
		Looker:  hostdns.Looker{Paths: hostdns.NewPaths(c.root), Progress: &progress},
		Applier: hostdns.Applier{Progress: &progress},
		Log:     journal.NewLogger(stderr, "origin-dns-dispatcher", slog.LevelInfo),
	}
	if c.verb == "" {
		if !within(c.timeout()+hangTime, func() { c.hook(ctx, runner) }) {
			c.giveUp(runner.Log, &progress)
		}
		return exitOK
	}
	// Print after the run has ended, because a pager may block.
	var out bytes.Buffer
	var complete bool
	var err error
	if !within(c.timeout()+hangTime, func() { complete, err = c.do(ctx, runner, &out) }) {
		c.giveUp(runner.Log, &progress)
		return exitProblem
	}
	if err == nil {
		_, err = stdout.Write(out.Bytes())
	}
	if err != nil {
		termtext.WriteError(stderr, "origin-dns-dispatcher", err)
	}
	if err != nil || !complete {
		return exitProblem
	}
	return exitOK
}

func (c command) hook(ctx context.Context, runner hostdns.Runner) {
	defer func() {
		if r := recover(); r != nil {
			runner.Log.Error("host DNS", slog.String("event", c.event.Action), slog.Any("panic", r),
				slog.String("stack", string(debug.Stack())), journal.HookFailed.Attr())
		}
	}()
	if c.event.Matters() {
		// The run logs the error. NetworkManager does not get it.
		_, _, _ = runner.Event(ctx, c.event)
	}
}

// do executes a verb and reports whether resolv.conf is as it should be. Errors that the run's log
// line contains are not returned.
func (c command) do(ctx context.Context, runner hostdns.Runner, stdout io.Writer) (complete bool, err error) {
	switch {
	case c.verb == "stopping":
		return c.stopping(ctx, runner)
	case c.verb == "stopped":
		return c.stopped(ctx, runner)
	case c.capture:
		// Write the stamp first: a capture may take all the available time.
		return true, errors.Join(c.recordWayBack(ctx, runner.Looker.Paths), runner.Capture(ctx))
	case c.verb == "apply":
		if err := runner.TakeRequest(); err != nil {
			return false, err
		}
		runner.ByHand = os.Getenv(invocationEnv) == "" // if set, node-dns-apply.service runs it for the daemon
		var noWayBack error
		if runner.Looker.Paths.LacksWayBack() {
			noWayBack = c.recordWayBack(ctx, runner.Looker.Paths)
		}
		return isComplete(runner.Apply(ctx, nm.Event{Action: "apply"})), noWayBack
	case c.verb == "restore" && !c.dryRun:
		restore := runner.Restore
		if c.purge {
			restore = runner.Purge
		}
		return isComplete(restore(ctx, c.ifOurs)), nil
	case c.verb == "restore":
		plan := runner.ShowRestore(ctx, c.ifOurs, c.purge)
		return plan.Complete(nil), plan.WriteText(stdout, nil)
	}
	plan, silence := runner.Show(ctx)
	write := plan.WriteText
	if c.output == "json" {
		write = plan.WriteJSON
	}
	return plan.Complete(silence), write(stdout, silence)
}

// isComplete reports whether a run left resolv.conf as it should be.
func isComplete(plan hostdns.Plan, result hostdns.Result, err error) bool {
	return err == nil && plan.Complete(result.Silence)
}
