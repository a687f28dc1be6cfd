package nspawn

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// mergeEtc merges a node's /etc into to, a copy of a new image's /etc, like ostree. Files that
// differ from the defaults of the booted image are taken from the node, and files that were removed
// on the node are removed (ostree: atomic-upgrades, "Assembling a new deployment directory").
func mergeEtc(to, node, defaults string) error {
	changed := func(path string) (bool, error) {
		now, err := describeContent(filepath.Join(node, path))
		before, beforeErr := describeContent(filepath.Join(defaults, path))
		return now != before, errors.Join(err, beforeErr)
	}
	for _, top := range []string{node, defaults} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || path == top {
				return err
			}
			relative, err := filepath.Rel(top, path)
			if err != nil {
				return err
			}
			differs, err := changed(relative)
			if err != nil || !differs {
				return err
			}
			return replaceTree(filepath.Join(to, relative), filepath.Join(node, relative))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replaceTree replaces to by from, which may not exist. A directory that exists in both stays.
func replaceTree(to, from string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(to)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := os.Mkdir(to, info.Mode().Perm()); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	return errors.Join(os.RemoveAll(to), os.MkdirAll(filepath.Dir(to), 0o755), exec.Command("cp", "--archive", from, to).Run())
}

// describeContent is describe with the content and without the time. It returns "" if path does not
// exist.
func describeContent(path string) (string, error) {
	text, err := describe(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if info, statErr := os.Lstat(path); err == nil && statErr == nil && info.Mode().IsRegular() {
		data, err := os.ReadFile(path)
		return info.Mode().String() + string(data), err
	}
	return text, err
}

func TestMergeEtc(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"defaults/same": "old", "defaults/changed": "old", "defaults/gone": "old", "defaults/d/kept": "old",
		"node/same": "old", "node/changed": "mine", "node/d/kept": "old", "node/d/new": "mine",
		"to/same": "new", "to/changed": "new", "to/gone": "new", "to/d/kept": "new", "to/brought": "new",
	} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := mergeEtc(dir+"/to", dir+"/node", dir+"/defaults"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"same": "new", "changed": "mine", "gone": "", "d/kept": "new", "d/new": "mine", "brought": "new"} {
		if got, err := os.ReadFile(filepath.Join(dir, "to", path)); string(got) != want {
			t.Errorf("%s: got %q, want %q, error %v", path, got, want, err)
		}
	}
}
