package hostdns

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/nm"
)

// worlds are hosts before a run, with different files.
func worlds() map[string]map[string]string {
	return map[string]map[string]string{
		"nothing but resolv.conf": {etcResolvConf: generated},
		"all of an earlier run":   {etcResolvConf: oursText, etcUpstreams: "server=10.0.0.9\n", etcNode: "nameserver 10.0.0.9\n", varOriginal: generated, varRecord: "{}\n"},
		"a link":                  {etcResolvConf: "-> ../run/NetworkManager/resolv.conf", "/run/NetworkManager/resolv.conf": generated},
		"links everywhere": {
			etcResolvConf: "-> /run/resolv.conf", etcUpstreams: "-> ../up", etcNode: "-> /nowhere", "/run/resolv.conf": generated, "/etc/up": "server=10.0.0.9\n",
		},
		"the script's":   {etcResolvConf: LegacyWatermark + "\nnameserver " + nodeIP + "\n", etcUpstreams: "server=10.0.0.2\n"},
		"no resolv.conf": {etcUpstreams: "server=10.0.0.2\n"},
	}
}

// TestUndo: Undo restores content, mode and links, whether or not the local nameserver answers.
func TestUndo(t *testing.T) {
	for name, files := range worlds() {
		for _, silent := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newTree(t, files)
				w.silent = silent
				if _, ok := files[etcNode]; !ok {
					w.put(etcNode, "# site\n")
					w.chmod(etcNode, 0o600)
				}
				before := w.files()
				runner := w.runner()
				_, undo, err := runner.Applier.Apply(t.Context(), NewPlan(runner.Looker.Look(t.Context(), nm.Event{})))
				if err != nil {
					t.Fatal(err)
				}
				if maps.Equal(before, w.files()) {
					t.Fatal("nothing to undo")
				}
				if err := undo(); err != nil {
					t.Fatal(err)
				}
				wantSame(t, "after the undo", before, w.files())
			})
		}
	}
}

// TestUndoOrder: the last change is undone first, so that resolv.conf is restored before its
// upstreams.
func TestUndoOrder(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated})
	runner := w.runner()
	undoing, steps := false, 0
	runner.Applier.Writer.Step = func(step string) {
		if undoing && step == "syncdir" {
			if steps++; w.read(etcResolvConf) != generated {
				t.Errorf("after %d undone steps resolv.conf is\n%s", steps, w.read(etcResolvConf))
			}
		}
	}
	_, undo, err := runner.Applier.Apply(t.Context(), NewPlan(runner.Looker.Look(t.Context(), nm.Event{})))
	if err != nil {
		t.Fatal(err)
	}
	undoing = true
	if err := undo(); err != nil || steps != 6 {
		t.Errorf("%d steps: %v", steps, err)
	}
}

// TestUndoRestore: the undo of a restore points the node here again.
func TestUndoRestore(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: oursText, varOriginal: "-> ../run/systemd/resolve/stub-resolv.conf"})
	before := w.files()
	runner := w.runner()
	result, undo, err := runner.Applier.Apply(t.Context(), newRestorePlan(runner.Looker.Look(t.Context(), nm.Event{}), false))
	if err != nil || result.ResolvConf != Restored || w.written(result) != etcResolvConf+" "+varOriginal {
		t.Fatalf("%s, wrote %s: %v", result.ResolvConf, w.written(result), err)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "after the undo", before, w.files())
}

// TestFailsAfterItTookEffect: the directory of resolv.conf cannot be synced after the rename. The
// new file and the saved original stay, and the run reports the error.
func TestFailsAfterItTookEffect(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: generated, etcUpstreams: "server=10.0.0.2\nserver=10.0.0.3\n"})
	w.apply()
	w.remove(etcResolvConf)
	w.remove(varOriginal)
	w.put(etcResolvConf, generated)

	runner := w.runner()
	syncs := 0
	runner.Applier.Writer.Step = func(step string) {
		if step == "syncdir" {
			if syncs++; syncs == 2 { // the first sync is the original's
				hide(t, w.at("/etc"))
			}
		}
	}
	_, result, err := runner.Apply(t.Context(), nm.Event{})
	hide(t, w.at("/etc")) // moves it back
	if !errors.Is(err, unix.ENOENT) || result.ResolvConf != Written || w.written(result) != varOriginal+" "+etcResolvConf {
		t.Fatalf("%s, wrote %s: %v (%d syncs)", result.ResolvConf, w.written(result), err, syncs)
	}
	if got := w.read(etcResolvConf); got != oursText || w.read(varOriginal) != generated {
		t.Errorf("resolv.conf:\n%s\noriginal:\n%s", got, w.read(varOriginal))
	}
}

// hide moves a directory away, or back.
func hide(t *testing.T, dir string) {
	t.Helper()
	away := filepath.Join(filepath.Dir(dir), "away")
	from, to := dir, away
	if _, err := os.Lstat(away); err == nil {
		from, to = away, dir
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestOriginalThatCannotBeRemoved: the node has its nameservers back and keeps them.
func TestOriginalThatCannotBeRemoved(t *testing.T) {
	w := newTree(t, map[string]string{etcResolvConf: oursText, varOriginal: generated})
	w.mkdir(varOriginal + "/../.resolv.conf.orig.node-dns-tmp/x") // makes a Remove fail
	_, result, err := w.runner().Restore(t.Context(), false)
	if err == nil || result.ResolvConf != Restored || w.written(result) != etcResolvConf {
		t.Errorf("%s, wrote %s: %v", result.ResolvConf, w.written(result), err)
	}
	if got := w.read(etcResolvConf); got != generated {
		t.Errorf("resolv.conf:\n%s", got)
	}
}
