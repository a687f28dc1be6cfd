package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/migrate"
)

// migration is how the command was called.
type migration struct {
	dryRun, apply, undo bool
	output              string
}

func newMigrateCommand() *cobra.Command {
	var m migration
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring this node from what does its DNS today to node-dns, and back",
		Long: `Bring this node from what does its DNS today to node-dns, and back.

Without a flag it says what it found, and what --apply would do, and changes nothing. --apply does that in an order in
which names resolve at every moment, each step written to ` + migrate.JournalFile + ` before it is done; where a step
fails, or names do not resolve at the end, it goes back by itself. --undo goes all the way back, also after a crash.

Exit code 0: done, or there is nothing to do, or the plan is shown; 1: it cannot be done, and the reason is shown.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&m.dryRun, "dry-run", false, "say what would be done (the default)")
	flags.BoolVar(&m.apply, "apply", false, "do it")
	flags.BoolVar(&m.undo, "undo", false, "go all the way back")
	flags.StringVarP(&m.output, "output", "o", "text", "text or json, of what would be done")
	return cmd
}

func (m migration) run(cmd *cobra.Command) error {
	root, err := rootOf(cmd)
	switch {
	case err != nil:
		return err
	case m.apply && m.undo, m.dryRun && (m.apply || m.undo):
		return usageError{errors.New("--dry-run, --apply and --undo: one of them")}
	case m.output != "text" && m.output != "json":
		return usageError{fmt.Errorf("-o %s: expected text or json", m.output)}
	case !m.apply && !m.undo:
		return m.show(cmd.Context(), cmd.OutOrStdout(), root)
	case root != "/":
		return usageError{errors.New("--root: what is below it can be looked at, and not migrated")}
	case os.Geteuid() != 0:
		return errors.New("it takes root to migrate a node: without a flag it only says what it would do")
	}
	// A terminal that goes away, or a second thought, must not leave a node between the two: see Applier.Continue.
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	unlock, err := migrate.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	journal, err := migrate.ReadJournal(root)
	if err != nil {
		return err
	}
	applier := migrate.Applier{Tell: func(sentence string) { fmt.Fprintln(cmd.OutOrStdout(), sentence) }}
	if m.undo {
		return undo(ctx, cmd.OutOrStdout(), applier, journal)
	}
	return apply(ctx, cmd.OutOrStdout(), applier, journal)
}

// show is the dry run.
func (m migration) show(ctx context.Context, out io.Writer, root string) error {
	journal, err := migrate.ReadJournal(root)
	if errors.Is(err, os.ErrPermission) {
		err = nil // it is root's, and says what was done
	}
	if err != nil {
		return err
	}
	if journal != nil && m.output == "text" {
		return journal.WriteText(out)
	}
	plan, err := plan(ctx, root)
	if err != nil {
		return err
	}
	write := plan.WriteText
	if m.output == "json" {
		write = plan.WriteJSON
	}
	if err := write(out); err != nil {
		return err
	}
	if len(plan.Refused) > 0 {
		return errShown
	}
	return nil
}

func plan(ctx context.Context, root string) (migrate.Plan, error) {
	host, err := migrate.Survey(ctx, root)
	if err != nil {
		return migrate.Plan{}, err
	}
	return migrate.NewPlan(host, migrate.Find(host)), nil
}

func apply(ctx context.Context, out io.Writer, applier migrate.Applier, journal *migrate.Journal) error {
	switch {
	case journal != nil && journal.Phase == migrate.Applying:
		return applier.Continue(ctx, journal)
	case journal != nil:
		return journal.WriteText(out)
	}
	plan, err := plan(ctx, "/")
	if err != nil {
		return err
	}
	if len(plan.Steps) == 0 || len(plan.Refused) > 0 {
		if err := plan.WriteText(out); err != nil || len(plan.Refused) == 0 {
			return err
		}
		return errShown
	}
	if err := applier.Apply(ctx, plan); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "Done: node-dns serves this node. node-dns migrate --undo goes back.")
	return err
}

func undo(ctx context.Context, out io.Writer, applier migrate.Applier, journal *migrate.Journal) error {
	if journal == nil {
		_, err := fmt.Fprintln(out, "There is nothing to undo.")
		return err
	}
	// Once begun it is not given up: half of the way back is worse than either end.
	if err := applier.Undo(context.WithoutCancel(ctx), journal); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "Done: all is as it was before the migration.")
	return err
}
