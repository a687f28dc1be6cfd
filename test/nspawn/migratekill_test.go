package nspawn

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/migrate"
)

// dieEnv makes a copy of this test's program in a machine migrate, and kill itself at a moment.
// "undo:MOMENT" is a moment of the way back.
const dieEnv = "NODEDNS_DIE_AT"

// migrateAndDie does not return.
func migrateAndDie(at string) {
	at, undo := strings.CutPrefix(at, "undo:")
	applier := migrate.Applier{Step: func(moment string) {
		if moment == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	if err := migrateOrBack(applier, undo); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func migrateOrBack(applier migrate.Applier, undo bool) error {
	ctx := context.Background()
	if undo {
		journal, err := migrate.ReadJournal("/")
		if err != nil || journal == nil {
			return fmt.Errorf("no journal: %w", err)
		}
		return applier.Undo(ctx, journal)
	}
	host, err := migrate.Survey(ctx, "/")
	if err != nil {
		return err
	}
	return applier.Apply(ctx, migrate.NewPlan(host, migrate.Find(host)))
}

// TestMigrateKilled: after a migration was killed, or the node crashed during it, it can be undone
// or continued. The same holds for the way back. These are the moments when units and sockets are
// between both states. migrate.TestKilledAtEachMoment covers those of the files.
func TestMigrateKilled(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	program := o.copySelf()
	before := o.tree()
	die := func(moment string, crash bool) {
		t.Helper()
		if out, err := o.Try("env", dieEnv+"="+moment, program); err == nil || !strings.Contains(err.Error(), "exit status 137") && !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%s: the migration was not killed: %v\n%s", moment, err, out)
		}
		if crash {
			o.Crash()
			o.boot()
		}
		o.Await("names to resolve, killed at "+moment, func() bool { return o.libc() != "" && o.answeredBy() != "" })
	}
	for _, row := range []struct {
		there string
		crash bool
		then  string // the admin's command
		back  string // of an --undo that is killed; "" if none is
	}{
		{there: "UDP taken", then: "--undo"},
		{there: "stopped", then: "--apply", back: "yielding"},
		{there: "after start", crash: true, then: "--apply", back: "gone"},
		{there: "after port", crash: true, then: "--undo"},
	} {
		die(row.there, row.crash)
		o.Run("node-dns", "migrate", row.then)
		if row.then == "--apply" {
			o.checkMigrated()
			die("undo:"+row.back, row.crash)
			o.Run("node-dns", "migrate", "--undo")
		}
		o.checkEtc(before)
		o.checkOld()
		if t.Failed() {
			t.Fatalf("%+v", row)
		}
	}
}
