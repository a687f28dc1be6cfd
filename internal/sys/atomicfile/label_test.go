package atomicfile

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

const netConf = "system_u:object_r:net_conf_t:s0\x00"

// labelled creates a file or link with a label at path, or skips the test if that is not possible.
// A kernel without SELinux stores any label for a process with CAP_SYS_ADMIN.
func labelled(t *testing.T, th thing, path string) {
	t.Helper()
	th.put(t, path)
	err := unix.Lsetxattr(path, labelName, []byte(netConf), 0)
	switch {
	case err == nil:
	case errors.Is(err, unix.EPERM), unsupported(err), errors.Is(err, unix.EINVAL):
		lab.Skip(t, "labels cannot be set here: %v", err)
	default:
		t.Fatal(err)
	}
}

func checkLabel(t *testing.T, path, want string) {
	t.Helper()
	if got, err := Label(path); err != nil || got != want {
		t.Errorf("label %q, %v; want %q", got, err, want)
	}
}

func TestLabel(t *testing.T) {
	if !isolated(t) {
		return
	}
	link := thing{link: "target"}
	tests := []struct {
		name   string
		before thing
		change func(path string) (bool, error)
	}{
		{"file to file", file("old\n"), func(path string) (bool, error) { return Writer{}.Write(path, []byte("new\n"), 0o644) }},
		{"link to file", link, func(path string) (bool, error) { return Writer{}.Write(path, []byte("new\n"), 0o644) }},
		{"file to link", file("old\n"), func(path string) (bool, error) { return Writer{}.Symlink(path, "elsewhere") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(tmpfs(t), "resolv.conf")
			labelled(t, tt.before, path)
			if changed, err := tt.change(path); !changed || err != nil {
				t.Fatalf("changed = %v, %v", changed, err)
			}
			checkLabel(t, path, netConf)
		})
	}
}

func TestNoLabel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := copyLabel(path, path); err != nil {
		t.Errorf("missing file: %v", err)
	}
	file("old\n").put(t, path)
	want, err := Label(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Writer{}).Write(path, []byte("new\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	checkLabel(t, path, want)
	// procfs has no extended attributes: it returns ENOTSUP, or ENODATA with SELinux off.
	if _, err := Label("/proc/self/status"); err != nil {
		t.Errorf("on a file system without labels: %v", err)
	}
}

func TestMeaningless(t *testing.T) {
	tests := []struct {
		name, have string
		err        error
		want       bool
	}{
		// A container without CAP_SYS_ADMIN from an image with labels.
		{"no SELinux, not allowed", "", unix.EPERM, true},
		{"no SELinux, no attributes", "", unix.EOPNOTSUPP, true},
		{"no SELinux, full", "", unix.ENOSPC, false},
		{"SELinux denies relabelto", netConf, unix.EACCES, false},
		{"SELinux, not allowed", netConf, unix.EPERM, false},
		{"SELinux does not know the label", netConf, unix.EINVAL, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := meaningless(tt.have, tt.err); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestWriteWithoutCapabilities: kernels differ in whether a thread without capabilities may set a
// label while SELinux is off. The file must be written on both.
func TestWriteWithoutCapabilities(t *testing.T) {
	if !isolated(t) {
		return
	}
	path := filepath.Join(tmpfs(t), "resolv.conf")
	labelled(t, file("old\n"), path)
	type result struct {
		changed bool
		err     error
	}
	results := make(chan result)
	go func() {
		// Capabilities belong to a thread. It stays locked, so it ends with this goroutine.
		runtime.LockOSThread()
		if err := dropCapabilities(); err != nil {
			results <- result{err: err}
			return
		}
		changed, err := Writer{}.Write(path, []byte("new\n"), 0o644)
		results <- result{changed, err}
	}()
	r := <-results
	check(t, path, r.changed, true, r.err, nil, file("new\n"))
}

func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
