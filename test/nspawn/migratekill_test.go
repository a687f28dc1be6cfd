package nspawn

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/node-dns/node-dns/internal/migrate"
)

// dieEnv has this test's program, copied into a machine, migrate that and be killed at a moment: "undo:MOMENT" is one on the
// way back. "?" prints the moments instead.
const dieEnv = "NODEDNS_DIE_AT"

// migrateAndDie does not return.
func migrateAndDie(at string) {
	at, undo := strings.CutPrefix(at, "undo:")
	applier := migrate.Applier{Step: func(moment string) {
		if at == "?" {
			fmt.Println(moment)
		}
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

// TestMigrateKilled: whenever a migration is killed, it can be gone back from, and continued; and so it is on the way back.
func TestMigrateKilled(t *testing.T) {
	o := newOldNode(t, dnsmasqWith{base: openshiftBase, hook: true})
	program := o.copySelf()
	before := o.tree()
	dieAt := func(moment string) (string, error) { return o.Try("env", dieEnv+"="+moment, program) }
	moments := func(direction string) []string {
		t.Helper()
		out, err := dieAt(direction + "?")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		// Between the end of one step and the beginning of the next there is no more than a line in the journal.
		all := slices.DeleteFunc(strings.Split(strings.TrimSpace(out), "\n"), func(moment string) bool {
			return strings.HasPrefix(moment, "before ")
		})
		t.Logf("%d moments: %s", len(all), strings.Join(all, ", "))
		if len(all) < 10 {
			t.Fatal("too few")
		}
		return all
	}
	there, back := moments(""), moments("undo:")
	o.checkEtc(before)
	die := func(moment string) {
		t.Helper()
		if out, err := dieAt(moment); err == nil || !strings.Contains(err.Error(), "exit status 137") && !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%s: it was not killed: %v\n%s", moment, err, out)
		}
	}
	undo := func(killed string) {
		t.Helper()
		o.Run("node-dns", "migrate", "--undo")
		o.checkEtc(before)
		o.checkOld()
		if t.Failed() {
			t.Fatalf("killed at %q", killed)
		}
	}
	for i := range max(len(there), len(back)) {
		there, back := there[i%len(there)], back[i%len(back)]
		die(there)
		if i%2 == 0 {
			undo(there)
		}
		o.Run("node-dns", "migrate", "--apply") // from the beginning, or from there
		o.checkMigrated()
		die("undo:" + back)
		undo(there + ", and on the way back at " + back)
	}
}
