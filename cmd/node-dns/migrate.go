package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// migration holds the flags of the command.
type migration struct {
	dryRun, apply, undo bool
	kubelet, intercept  bool
}

func newMigrateCommand() *cobra.Command {
	var m migration
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate this node's DNS to node-dns, and back",
		Long: `Migrate this node's DNS to node-dns, and back.

Without a flag it shows what it found and what --apply would do, and changes
nothing. --apply keeps names resolving at every step. Each step is written to
` + migrate.JournalFile + ` first. If a step fails, or names do
not resolve at the end, it undoes all steps. --undo undoes the migration, also
after a crash.

With --kubelet it also sets the kubelet's resolvConf to
/etc/origin/node/resolv.conf, in the file that the kubelet reads. It does not
restart the kubelet.

With --intercept it also sets intercept: clusterDNS in
/etc/node-dns/node-dns.yaml: this node's pods keep their configuration, and
their queries to the cluster's DNS Service come to node-dns. That requires a
kubeconfig for the Kubernetes API.

Exit code 0: done, nothing to do, or the plan is shown; 1: not possible, and
the reason is shown; 4: permission denied.`,
		Example: `  node-dns migrate
  node-dns migrate --apply
  node-dns migrate --undo`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&m.dryRun, "dry-run", false, "show what would be done (the default)")
	flags.BoolVar(&m.apply, "apply", false, "migrate this node")
	flags.BoolVar(&m.kubelet, "kubelet", false, "also point the kubelet's resolvConf at nameservers that pods can reach")
	flags.BoolVar(&m.intercept, "intercept", false, "also intercept pods' queries to the cluster's DNS Service")
	flags.BoolVar(&m.undo, "undo", false, "undo the migration")
	addOutputFlag(cmd)
	flags.Lookup("output").Usage += "; the plan, or the progress"
	return cmd
}

func (m migration) run(cmd *cobra.Command) error {
	root, err := rootOf(cmd)
	switch {
	case err != nil:
		return err
	case m.undo && m.kubelet:
		return usageError{errors.New("--undo also undoes --kubelet; omit --kubelet")}
	case m.undo && m.intercept:
		return usageError{errors.New("--undo also undoes --intercept; omit --intercept")}
	case m.apply && m.undo, m.dryRun && (m.apply || m.undo):
		return usageError{errors.New("--dry-run, --apply and --undo cannot be combined")}
	case !m.apply && !m.undo:
		return m.show(cmd, root)
	case root != "/":
		return usageError{errors.New("--root: a directory tree can be inspected, but not migrated")}
	case os.Geteuid() != 0:
		return fmt.Errorf("only root can migrate a node; without a flag, migrate shows what it would do: %w", os.ErrPermission)
	}
	unix.Umask(0o022) // like the hook, because the daemon must be able to access what is created here
	// A closed terminal or Ctrl-C must not leave a node half-migrated: see Applier.Continue. If the
	// reader of the output ends, as with a lost connection of ssh, the migration continues.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // signal.Ignore would apply to systemctl and others too
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	unlock, err := migrate.Lock(ctx, migrate.LockFile)
	if err != nil {
		return err
	}
	defer unlock()
	journal, err := migrate.ReadJournal(root)
	if err != nil {
		return err
	}
	applier := migrate.Applier{Tell: func(sentence string) { fmt.Fprintln(cmd.OutOrStdout(), termtext.Lines(sentence, "  ")) }}
	if m.undo {
		err = undo(ctx, cmd.OutOrStdout(), applier, journal)
	} else {
		err = m.applyPlan(ctx, cmd, applier, journal)
	}
	if errors.Is(err, control.ErrNotRunning) {
		// Not wrapped, because "node-dns is not running" has its own exit code, which does not
		// apply here.
		return errors.New(err.Error())
	}
	return err
}

// show performs the dry run.
func (m migration) show(cmd *cobra.Command, root string) error {
	journal, err := migrate.ReadJournal(root)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("this node was or is being migrated; only root can read the progress: %w", err)
	}
	if err != nil {
		return err
	}
	if journal != nil {
		return m.showJournal(cmd.Context(), cmd, root, journal)
	}
	plan, err := m.plan(cmd.Context(), root)
	if err != nil {
		return err
	}
	return show(cmd, plan.Document(), len(plan.Refused) > 0)
}

// showJournal prints a migration and, after its last step, what a cluster administrator still has
// to do.
func (m migration) showJournal(ctx context.Context, cmd *cobra.Command, root string, journal *migrate.Journal) error {
	err := show(cmd, journal.Document(), false)
	if err != nil || journal.Phase != migrate.Applied || outputOf(cmd) != "text" {
		return err
	}
	plan, err := m.plan(ctx, root)
	if err != nil {
		return err
	}
	return plan.WriteThen(cmd.OutOrStdout())
}

func (m migration) plan(ctx context.Context, root string) (migrate.Plan, error) {
	host, err := migrate.Survey(ctx, root)
	if err != nil {
		return migrate.Plan{}, err
	}
	if m.kubelet {
		host.Kubelet = host.LookAtKubelet(root)
	}
	host.Intercept = m.intercept
	found := migrate.Find(host)
	if root == "/" && len(found) > 0 && host.Root {
		rights, err := doctor.CheckRights(ctx, root, host.State.Config)
		if errors.Is(err, nodeconfig.ErrRefused) { // root may not use it, but the daemon may
			err = nil
		}
		host.Rehearsal = host.Rehearse(ctx, rights.Kubeconfig, rights.Missing, err)
	}
	return migrate.NewPlan(host, found), nil
}

func (m migration) applyPlan(ctx context.Context, cmd *cobra.Command, applier migrate.Applier, journal *migrate.Journal) error {
	out := cmd.OutOrStdout()
	if journal == nil {
		plan, err := m.plan(ctx, "/")
		if err != nil {
			return err
		}
		if len(plan.Steps) == 0 || len(plan.Refused) > 0 {
			return cmp.Or(plan.WriteText(out), shownIf(len(plan.Refused) > 0))
		}
		if err := done(out, applier.Apply(ctx, plan), served); err != nil {
			return err
		}
		return plan.WriteThen(out)
	}
	switch journal.Phase {
	case migrate.Applying:
		return done(out, applier.Continue(ctx, journal), served)
	case migrate.Applied:
		return m.showJournal(ctx, cmd, "/", journal)
	}
	return cmp.Or(journal.WriteText(out), errShown)
}

func undo(ctx context.Context, out io.Writer, applier migrate.Applier, journal *migrate.Journal) error {
	if journal == nil {
		_, err := fmt.Fprintln(out, "There is nothing to undo.")
		return err
	}
	if host, err := migrate.Survey(ctx, "/"); err == nil { // the undo does not depend on it
		if note := host.BeforeUndo(); note != "" {
			fmt.Fprintln(out, "note: "+termtext.Escape(note))
		}
	}
	// Once begun, the undo must complete: a half-restored node is worse than either end.
	err := applier.Undo(context.WithoutCancel(ctx), journal)
	return done(out, err, "everything is as it was before the migration.")
}

// served is the success message of --apply.
const served = "node-dns serves this node. node-dns migrate --undo reverts it."

// done prints the message if err is nil.
func done(out io.Writer, err error, what string) error {
	if err == nil {
		_, err = fmt.Fprintln(out, "Done: "+what)
	}
	return err
}
