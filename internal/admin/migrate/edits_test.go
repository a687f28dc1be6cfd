package migrate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUndoKeepsEdits: an undo discarded what an admin or a cluster upgrade had written to a file
// since the migration: an edited node-dns.yaml was removed, and an upgraded kubelet's configuration
// became the old one. Whatever is not restored is kept under another name, wherever the undo dies.
func TestUndoKeepsEdits(t *testing.T) {
	t.Parallel()
	const (
		was, edit    = "was: 1\n", "new: 3\n"
		added, again = "\n# why\nadded: 2\n", "\n# why\nagain: 2\n"
	)
	twice := []Step{writeStep(ourConfig, was+added, "first"), writeStep(ourConfig, was+added+again, "second")}
	fresh := []Step{writeStep(ourConfig, added, "first")}
	aside := []Step{removeStep(ourConfig, "")}
	link := func(a Applier) error { return os.Symlink("real.yaml", filepath.Join(a.root, ourConfig)) }
	for _, row := range []struct {
		name         string
		steps        []Step
		before, edit string // "" for no file
		after        string
		aside        string // what the file with another name has; "" for no such file
		told         string // "" for nothing
		setup        func(a Applier) error
	}{
		{name: "edited", steps: twice, before: was, edit: edit + was + added + edit + again, after: edit + was + edit, told: "keep the later changes of " + ourConfig},
		{name: "upgraded", steps: twice, before: was, edit: edit, after: edit, aside: was, told: "the file from before the migration is " + ourConfig + ".undo1~"},
		{name: "edited within what was added", steps: twice, before: was, edit: was + added + again + "  more: 4\n", after: was, aside: was + added + again + "  more: 4\n", told: "what it had is now in " + ourConfig + ".undo1~"},
		{name: "added twice", steps: twice, before: was, edit: was + added + again + again, after: was, aside: was + added + again + again, told: "is now in"},
		{name: "as after the first step", steps: twice, before: was, edit: was + added, after: was},
		{name: "not edited", steps: twice, before: was, edit: was + added + again, after: was},
		{name: "restored by hand", steps: twice, before: was, edit: was, after: was},
		{name: "removed", steps: twice, before: was, after: was},
		// A kubelet does not start with a drop-in without apiVersion and kind.
		{name: "new, and edited", steps: fresh, edit: added + edit, aside: added + edit, told: "is now in"},
		{name: "new, and replaced", steps: fresh, edit: edit, aside: edit, told: "is now in"},
		{name: "new, and empty lines added", steps: fresh, edit: added + "\n"},
		{name: "new, and not edited", steps: fresh, edit: added},
		{name: "new, and removed", steps: fresh},
		{name: "moved aside, and installed again", steps: aside, before: was, edit: edit, after: was, aside: edit, told: "is now in"},
		{name: "moved aside", steps: aside, before: was, after: was},
		{name: "a link, and edited", steps: fresh, edit: added + edit, after: was, aside: added + edit, told: "is now in", setup: func(a Applier) error {
			return errors.Join(os.WriteFile(filepath.Join(a.root, filepath.Dir(ourConfig), "real.yaml"), []byte(was), 0o644), link(a))
		}},
		// openresolv keeps writing it.
		{name: "another program's own file", steps: []Step{writeStep(resolvconfFile, was, "")}, edit: edit},
	} {
		t.Run(row.name, func(t *testing.T) {
			for moment, more := 0, true; more; moment++ {
				a, told := Applier{root: t.TempDir(), other: onPaper{}}, ""
				a.Tell = func(sentence string) { told += sentence + "\n" }
				path := filepath.Join(a.root, row.steps[0].Path)
				put := func(text string) {
					t.Helper()
					err := remove(path)
					if text != "" {
						err = a.rewrite(row.steps[0].Path, text)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if put(row.before); row.setup != nil {
					if err := row.setup(a); err != nil {
						t.Fatal(err)
					}
				}
				if err := a.Apply(t.Context(), Plan{Steps: row.steps}); err != nil {
					t.Fatal(err)
				}
				put(row.edit)
				told = ""
				undo := func(a Applier) error {
					j, err := ReadJournal(a.root)
					if err != nil || j == nil {
						return err
					}
					return a.Undo(t.Context(), j)
				}
				var err error
				_, more, err = until(moment, a, undo)
				if err := errors.Join(err, undo(a)); err != nil {
					t.Fatal(err)
				}
				for path, want := range map[string]string{path: row.after, path + ".undo1~": row.aside, path + ".undo2~": ""} {
					if text, _ := os.ReadFile(path); string(text) != want { // empty if it is gone
						t.Errorf("killed at moment %d: %s: got %q, want %q", moment, filepath.Base(path), text, want)
					}
				}
				if _, err := os.Readlink(path); row.setup != nil && err != nil {
					t.Errorf("killed at moment %d: the link is lost", moment)
				}
				if (row.told == "") != (told == "") || !strings.Contains(told, row.told) {
					t.Errorf("killed at moment %d: told %q, want %q", moment, told, row.told)
				}
			}
		})
	}
}

// TestUndoAgainKeepsEdits: an admin edits a restored file because the undo failed. The next attempt
// discarded that.
func TestUndoAgainKeepsEdits(t *testing.T) {
	t.Parallel()
	const was, added, repaired = "was: 1\n", "\nadded: 2\n", "repaired: 1\n"
	a := Applier{root: t.TempDir(), other: onPaper{}}
	path := filepath.Join(a.root, ourConfig)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), a.rewrite(ourConfig, was)); err != nil {
		t.Fatal(err)
	}
	if err := a.Apply(t.Context(), Plan{Steps: []Step{writeStep(ourConfig, was+added, "first")}}); err != nil {
		t.Fatal(err)
	}
	j, err := ReadJournal(a.root)
	if err != nil {
		t.Fatal(err)
	}
	j.Phase = Undoing
	if err := errors.Join(a.rewrite(ourConfig, repaired), a.Undo(t.Context(), j)); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != repaired {
		t.Errorf("got %q", text)
	}
	if text, _ := os.ReadFile(path + ".undo1~"); string(text) != was {
		t.Errorf("the file from before is %q", text)
	}
}
