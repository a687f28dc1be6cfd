package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// onPaper changes the files that units, sockets and NetworkManager would change, in two halves with
// a moment between them.
type onPaper struct{}

func (onPaper) do(_ context.Context, a Applier, _ *Journal, s Step) error {
	for i, path := range s.Touches {
		if i == len(s.Touches)/2 {
			a.moment("in " + string(s.Kind))
		}
		if err := a.change(s, path); err != nil {
			return err
		}
	}
	if s.Kind == Point {
		return a.rewrite(libcFile, hostdns.Watermark+"\nnameserver 10.0.0.7\n")
	}
	return nil
}

// change changes a path like the step, or a program that it calls.
func (a Applier) change(s Step, path string) error {
	switch {
	case s.Kind == Release, s.Kind == Mask && path == wantsLink(s.Unit):
		return remove(filepath.Join(a.base(), path))
	case s.Kind == Mask && path == unitLink(s.Unit):
		var w atomicfile.Writer
		_, err := w.Symlink(filepath.Join(a.root, path), "/dev/null")
		return err
	case filepath.Ext(path) == "" || filepath.Base(path) == "dnsmasq.d": // a directory
		return os.MkdirAll(filepath.Join(a.root, path), 0o755)
	}
	return a.rewrite(path, "of step "+string(s.Kind)+"\n")
}

func (a Applier) rewrite(path, text string) error {
	path = filepath.Join(a.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var w atomicfile.Writer // replaces a link instead of following it
	_, err := w.Write(path, []byte(text), 0o644)
	return err
}

func (onPaper) undo(_ context.Context, a Applier, j *Journal, s Step) error {
	saved := j.of(s)
	err := a.restoreAll(saved[:len(saved)/2])
	a.moment("in undoing " + string(s.Kind))
	return errors.Join(err, a.restoreAll(saved))
}

// killed is the panic value that stands for the end of the process.
type killed struct{}

// until runs a function that is killed at its n-th moment. It returns that moment and whether there
// was one.
func until(n int, a Applier, run func(Applier) error) (moment string, was bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			was = true
		}
	}()
	a.Step = func(name string) {
		if n--; n < 0 {
			moment = name
			panic(killed{})
		}
	}
	return moment, false, run(a)
}

// writeTree creates the files of an OpenShift 3 node.
func writeTree(t *testing.T, root string) {
	t.Helper()
	for path, text := range map[string]string{
		oldHook: "#!/bin/sh\n", oldSnippet: "[main]\ndns=none\n", openresolvConf: "resolv_conf=/etc/resolv.conf\n",
		libcFile: "search example.com\nnameserver 10.0.0.7\n", "/etc/dnsmasq.d/origin-upstream-dns.conf": "server=192.0.2.53\n",
	} {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	wants := filepath.Join(root, wantsLink(dnsmasqUnit))
	if err := errors.Join(os.Mkdir(filepath.Join(root, "run"), 0o755), os.MkdirAll(filepath.Dir(wants), 0o755), os.Symlink("/usr/lib/systemd/system/dnsmasq.service", wants)); err != nil {
		t.Fatal(err)
	}
}

// treeOf returns the saved state of each path below root, except for the journal.
func treeOf(t *testing.T, root string) map[string]Saved {
	t.Helper()
	all := map[string]Saved{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		if err != nil || rel == "." || strings.HasPrefix(rel, "var") {
			return err
		}
		s, err := saveAt(path)
		if s.Kind != "file" {
			s.Time = time.Time{} // the time of links and directories is not restored
		}
		all[rel] = s
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestKilledAtEachMoment kills a migration and its undo at each moment. An undo must then restore
// the original state, and a killed migration can be continued. TestMigrateKilled does the same with
// units and sockets.
func TestKilledAtEachMoment(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	host := node(hook, dnsmasqAt("10.0.0.7"), dnsNoneFile("[main]\ndns=none\n"))
	plan := NewPlan(host, Find(host))
	plan.Steps = slices.Insert(plan.Steps, 1, writeStep(resolvconfFile, "nameserver 192.0.2.53\n", ""), writeStep(openresolvConf, "other\n", ""), linkStep(libcFile, resolvconfFile, ""))
	for i := range plan.Steps {
		plan.Steps[i].At = nil // no nameserver is queried
	}
	apply := func(a Applier) error { return a.Apply(ctx, plan) }
	journalOf := func(t *testing.T, a Applier) *Journal {
		t.Helper()
		j, err := ReadJournal(a.root)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	undo := func(a Applier) error {
		j, err := ReadJournal(a.root)
		if err != nil {
			return err
		}
		if j == nil {
			return nil // the migration had finished
		}
		return a.Undo(ctx, j)
	}
	fresh := func(t *testing.T) (Applier, map[string]Saved) {
		t.Helper()
		a := Applier{root: t.TempDir(), other: onPaper{}}
		writeTree(t, a.root)
		return a, treeOf(t, a.root)
	}
	is := func(t *testing.T, a Applier, want map[string]Saved, when string) {
		t.Helper()
		if d := cmp.Diff(want, treeOf(t, a.root)); d != "" {
			t.Fatalf("%s (-expected +got):\n%s", when, d)
		}
	}
	a, before := fresh(t)
	moments := 0
	a.Step = func(string) { moments++ }
	if err := apply(a); err != nil {
		t.Fatal(err)
	}
	migrated := treeOf(t, a.root)
	if cmp.Equal(before, migrated) {
		t.Fatal("the migration changed nothing")
	}

	if moments < 20 {
		t.Errorf("got only %d moments", moments)
	}
	for there := range moments {
		t.Run(fmt.Sprint(there), func(t *testing.T) {
			t.Parallel()
			a, before := fresh(t)
			moment, was, err := until(there, a, apply)
			if err != nil || !was {
				t.Fatalf("%s: killed %v, %v", moment, was, err)
			}
			if err := a.Continue(ctx, journalOf(t, a)); err != nil {
				t.Fatalf("killed %s, and continued: %v", moment, err)
			}
			is(t, a, anew(migrated, treeOf(t, a.root)), "killed "+moment+", and continued")
			if err := undo(a); err != nil {
				t.Fatalf("killed %s, continued, and back: %v", moment, err)
			}
			is(t, a, before, "killed "+moment+", continued, and back")
			for back, more := there%3, true; more; back += 3 { // each moment of the migration with a third of the undo's moments
				a, before := fresh(t)
				if _, _, err := until(there, a, apply); err != nil {
					t.Fatal(err)
				}
				var again string
				again, more, err = until(back, a, undo)
				if err := errors.Join(err, undo(a)); err != nil {
					t.Fatalf("killed %s, and on the way back %s: %v", moment, again, err)
				}
				is(t, a, before, "killed "+moment+", and on the way back "+again)
				if journalOf(t, a) != nil {
					t.Fatal("the journal still exists")
				}
			}
		})
	}
}

// anew returns tree with the file times of another tree.
func anew(tree, times map[string]Saved) map[string]Saved {
	all := map[string]Saved{}
	for path, s := range tree {
		s.Time = times[path].Time
		all[path] = s
	}
	return all
}
