package netns

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// machineFiles are the files that a package, NetworkManager's hook or the daemon could change, each with its mode and content.
// NetworkManager's own and its connections' are left out.
func machineFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, root := range []string{"/etc", "/usr/bin", "/usr/sbin", "/usr/lib/NetworkManager", "/var/lib", "/run/node-dns"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case path == root && err != nil:
				return nil
			case err != nil:
				return err
			case path == "/var/lib/NetworkManager":
				return fs.SkipDir
			case d.IsDir():
				return nil
			}
			all[path], err = describe(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// describe is a file's mode, and what it holds: of small ones the content, of large ones the size.
func describe(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	mode := info.Mode().String()
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return mode + " -> " + target, err
	case info.Mode().IsRegular() && info.Size() < 1<<12:
		data, err := os.ReadFile(path)
		return mode + " " + string(data), err
	}
	return mode + " " + info.ModTime().String(), nil
}

// copySource copies the module to where it can be built: what is built must not reach the tree that is tested.
func copySource(t *testing.T) string {
	t.Helper()
	const root, to = "../..", "/run/source"
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		from, to := filepath.Join(root, e.Name()), filepath.Join(to, e.Name())
		switch {
		case slices.Contains([]string{".git", "bin", "dist"}, e.Name()):
			continue
		case e.IsDir():
			err = os.CopyFS(to, os.DirFS(from))
		default:
			err = copyFile(from, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
