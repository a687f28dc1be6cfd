package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/hostdns"
)

// restoreTimeout is the timeout for a restore. NetworkManager and systemd-resolved, which may hang,
// have shorter ones.
const restoreTimeout = 10 * time.Second

// restoration holds the flags of the command.
type restoration struct{ dryRun, ifOurs, force bool }

func newRestoreCommand() *cobra.Command {
	var r restoration
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Restore the original resolv.conf and other programs' settings",
		Long: `Restore the original resolv.conf, and remove node-dns's settings from
NetworkManager and systemd-resolved.

/etc/resolv.conf becomes what it was before node-dns: a link, NetworkManager's
current list if NetworkManager wrote it, or the kept original. Stopping
node-dns does the same; use this command if that failed.
While node-dns runs it would point /etc/resolv.conf at the node again within a
second, so the command then changes nothing without --force.

Exit code 0: restored, or with --dry-run possible; 1: not restored, and the
reason is shown; 4: permission denied.`,
		Example: `  node-dns restore --dry-run
  node-dns restore`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&r.dryRun, "dry-run", false, "show what would be done, and change nothing")
	flags.BoolVar(&r.ifOurs, "if-ours", false, "do nothing, silently, if /etc/resolv.conf is not node-dns's")
	flags.BoolVar(&r.force, "force", false, "also while node-dns runs, although it undoes the restore")
	return cmd
}

func (r restoration) run(cmd *cobra.Command) error {
	root, err := rootOf(cmd)
	if err != nil {
		return err
	}
	paths := hostdns.NewPaths(root)
	if r.ifOurs && !paths.PointsHere() {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), restoreTimeout)
	defer cancel()
	runner := hostdns.Runner{Looker: hostdns.Looker{Paths: paths}}
	if r.dryRun {
		return r.show(ctx, cmd.OutOrStdout(), runner)
	}
	if _, err := control.FetchStatus(ctx, control.SocketPath(root)); !errors.Is(err, control.ErrNotRunning) && !r.force {
		return errors.New("node-dns is running and would point /etc/resolv.conf at this node again; \"systemctl stop node-dns\" restores the original by itself; " +
			"--force restores it anyway")
	}
	unix.Umask(0o022) // like the hook, because other users must be able to access what is created here
	plan, result, err := runner.Restore(ctx, r.ifOurs)
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("restoring /etc/resolv.conf requires root: %w", err)
	}
	if err := errors.Join(err, plan.WriteResult(cmd.OutOrStdout(), result)); err != nil {
		return err
	}
	return shownIf(!plan.Complete(result.Silence))
}

// show performs the dry run.
func (r restoration) show(ctx context.Context, out io.Writer, runner hostdns.Runner) error {
	plan := runner.ShowRestore(ctx, r.ifOurs, false)
	if info, err := os.Lstat(plan.Paths.Original); err == nil {
		if _, err := fmt.Fprintf(out, "original: /var/lib/node-dns/resolv.conf.orig, kept since %s\n", info.ModTime().UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	if err := plan.WriteText(out, nil); err != nil {
		return err
	}
	return shownIf(!plan.Complete(nil))
}
