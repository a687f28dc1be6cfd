package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// usualDirs always exist on an OpenShift 3 node.
var usualDirs = []string{"/etc/dnsmasq.d", "/etc/origin/node"}

// long is the modification time of the files before a run, so that a later write is visible.
var long = time.Date(2020, 1, 2, 3, 4, 5, 678, time.UTC)

func (b before) build(t *testing.T, l *lab.Lab) {
	t.Helper()
	b.Network.build(l)
	dirs := b.Dirs
	if dirs == nil {
		dirs = usualDirs
	}
	for _, dir := range dirs {
		makeDir(t, dir)
	}
	for path, file := range b.Files {
		makeDir(t, filepath.Dir(path))
		file.build(t, l, path)
	}
}

func (n network) build(l *lab.Lab) {
	wire := l.Namespace("wire")
	for _, i := range n.Interfaces {
		if i.Type == "tun" {
			l.Tun(i.Name)
		} else {
			l.Veth(i.Name, wire, i.Name)
		}
		l.Addr(i.Name, i.Addrs...)
	}
	for _, route := range n.Routes {
		l.Route(route)
	}
}

func (f beforeFile) build(t *testing.T, l *lab.Lab, path string) {
	t.Helper()
	if f.Symlink != "" {
		if err := os.Symlink(f.Symlink, path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, []byte(f.Content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	if f.ReadonlyBind {
		l.Run("mount", "--bind", path, path)
		l.Run("mount", "-o", "remount,bind,ro", path)
	}
}

func makeDir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// entry holds everything that a write can change about a file.
type entry struct {
	Mode           os.FileMode
	UID, GID       uint32
	Inode          uint64
	Modified       int64 // ns
	StatusModified int64 // ns
	Content        string
}

// tree is every file below the directories where the dispatcher may write.
type tree map[string]entry

// notOurs are directories whose content other programs change during the test.
var notOurs = []string{"/run/netns", "/run/node-dns"}

func readTree(t *testing.T) tree {
	t.Helper()
	all := tree{}
	for _, root := range []string{"/etc", "/run", "/var/lib/node-dns", "/var/tmp"} {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path == root {
				return nil
			}
			if err != nil {
				return err
			}
			for _, dir := range notOurs {
				if path == dir {
					return filepath.SkipDir
				}
			}
			if !d.IsDir() {
				all[path] = readEntry(t, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// interesting reports whether the content of a file is compared too. For speed, these are only
// resolver files.
func interesting(path string) bool {
	for _, part := range []string{"resolv", "dnsmasq", "origin", "node-dns"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}
