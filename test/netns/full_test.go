package netns

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// onSmallDisks mounts a small file system on each of these directories, with room for a few small
// files.
func onSmallDisks(t *testing.T, dirs ...string) option {
	return func(s *setup) {
		s.files = append(s.files, func(*lab.Lab) {
			for _, dir := range dirs {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			}
		})
	}
}

// fill uses up all free space of a directory with a file.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for page := make([]byte, 4096); err == nil; {
		_, err = file.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return func() { os.Remove(path) }
}

// TestDiskFull: if NetworkManager's new settings do not fit on the disk, the old file stays
// complete, names resolve by it, and the hook reports the reason. Once there is room, the new
// settings apply.
func TestDiskFull(t *testing.T) {
	for dir, asked := range map[string][]string{
		filepath.Dir(upstreamsFile):  {ns1}, // the new list cannot be saved
		filepath.Dir(nodeResolvConf): {ns1, ns2},
		"/var/lib/node-dns":          {ns1, ns2},
	} {
		t.Run(dir, func(t *testing.T) {
			n := newNode(t, onSmallDisks(t, dir))
			n.connect("eth0")
			n.await(right{Upstreams: []string{ns1}})
			before := contents(t, dir)
			empty := fill(t, dir)
			n.answers(asked, func() {
				n.reapply("ipv4.dns", ns2+","+ns1, "ipv4.dns-search", "example.com")
				if log := n.hook("eth0", "up"); !strings.Contains(log, "no space left on device") {
					t.Errorf("the hook logged: %s", log)
				}
			})
			for path, text := range before {
				if got := n.l.ReadFile(path); got != text {
					t.Errorf("%s is %q, want the old %q", path, got, text)
				}
			}
			empty()
			n.hook("eth0", "up")
			n.await(right{Upstreams: []string{ns2, ns1}})
		})
	}
}

// contents returns the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if e.Type().IsRegular() {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Join(dir, e.Name())] = string(data)
		}
	}
	return all
}
