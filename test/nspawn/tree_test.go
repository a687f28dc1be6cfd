package nspawn

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-cmp/cmp"
)

// trees are the directories where a package, its scriptlets and the product could leave files.
var trees = []string{
	"/etc", "/run", "/usr/sbin", "/usr/lib/NetworkManager", "/usr/lib/systemd", "/usr/lib/sysctl.d", "/usr/lib/sysusers.d",
	"/usr/share/bash-completion", "/usr/share/dbus-1", "/usr/share/fish", "/usr/share/licenses", "/usr/share/man/man5", "/usr/share/man/man8",
	"/usr/share/zsh", "/var/cache", "/var/lib",
}

// notOurs are the paths that other programs write meanwhile: the state of rpm and dnf, and files of
// systemd, NetworkManager and D-Bus. Debian's package manager has many.
var notOurs = []string{
	"/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/cache/man", "/var/cache/debconf",
	"/var/lib/rpm", "/var/lib/dnf", "/var/cache/dnf", "/var/lib/NetworkManager", "/var/lib/systemd", "/run/systemd", "/run/udev", "/run/log",
	"/run/dbus", "/run/credentials", "/run/user", "/run/utmp", "/run/NetworkManager/devices", "/run/NetworkManager/resolv.conf",
	"/run/NetworkManager/no-stub-resolv.conf", "/run/host", "/run/lock", "/run/dnf.pid", "/run/rpm",
}

// tree returns all files with their mode and owner, and their content or time, except files that
// disappear meanwhile.
func (n *node) tree() map[string]string {
	n.t.Helper()
	all := map[string]string{}
	root := n.Path("/")
	for _, top := range trees {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			name := "/" + strings.TrimPrefix(path, root)
			switch {
			case err == nil && slices.Contains(notOurs, name) && d.IsDir():
				return fs.SkipDir
			case err == nil && !slices.Contains(notOurs, name):
				all[name], err = describe(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				delete(all, name)
				return nil
			}
			return err
		})
		if err != nil {
			n.t.Fatal(err)
		}
	}
	return all
}

// describe returns a file's mode and owner, and the content of small files.
func describe(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	owner := info.Sys().(*syscall.Stat_t)
	text := fmt.Sprintf("%v %d:%d ", info.Mode(), owner.Uid, owner.Gid)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return text + "-> " + target, err
	case info.Mode().IsRegular() && info.Size() < 1<<10:
		data, err := os.ReadFile(path)
		return text + string(data), err
	case info.Mode().IsRegular():
		return text + fmt.Sprintf("%d bytes of %v", info.Size(), info.ModTime()), nil
	}
	return text, nil
}

// checkTree: the files are as before, except for those in may.
func (n *node) checkTree(before map[string]string, may ...string) {
	n.t.Helper()
	after := n.tree()
	want := maps.Clone(before)
	for _, name := range may {
		delete(want, name)
		delete(after, name)
	}
	if d := cmp.Diff(want, after); d != "" {
		n.t.Errorf("files (-before +after):\n%s", d)
	}
}
