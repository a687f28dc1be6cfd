package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// isolated reports whether this process has its own mount namespace. If not, it reruns the calling
// test in one.
func isolated(t *testing.T) bool {
	t.Helper()
	const env = "ATOMICFILE_TEST_MOUNTS"
	if os.Getenv(env) == t.Name() {
		return true
	}
	if os.Getuid() != 0 {
		lab.Skip(t, "mounts need root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+t.Name(), "GORACE=atexit_sleep_ms=0")
	// Go makes all mounts in the new namespace private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in a namespace: %v\n%s", err, out)
	}
	return false
}

func mount(t *testing.T, source, target, fstype string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		t.Fatalf("mounting %s: %v", target, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
}

// bind mounts a file with this content on a new path, as container runtimes do with
// /etc/resolv.conf.
func bind(t *testing.T, dir string, content thing) (path string) {
	t.Helper()
	source := filepath.Join(dir, "source")
	path = filepath.Join(dir, "etc", "resolv.conf")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	content.put(t, source)
	file("under the mount\n").put(t, path)
	mount(t, source, path, "", unix.MS_BIND, "")
	return path
}

func remountReadOnly(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

func TestBindMount(t *testing.T) {
	if !isolated(t) {
		return
	}
	long := "new\n" + strings.Repeat("# more than a page\n", 500)
	tests := []struct {
		name    string
		before  thing
		data    string
		changed bool
	}{
		{"shorter", file("old and longer\n"), "new\n", true},
		{"longer", file("old\n"), long, true},
		{"much shorter", file(long), "new\n", true},
		{"empty", file("old\n"), "", true},
		{"same", file("same\n"), "same\n", false},
		{"same with another mode", thing{file: "same\n", mode: 0o600}, "same\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := bind(t, t.TempDir(), tt.before)
			// Kernel timestamps may be up to 4 ms old. A modification time in the distant past
			// reveals any write.
			if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			before := identity(t, path)
			changed, err := Writer{}.Write(path, []byte(tt.data), 0o644)
			check(t, path, changed, tt.changed, err, nil, file(tt.data))
			if same := identity(t, path) == before; same == tt.changed {
				t.Errorf("untouched: %v", same)
			}
			if changed, err := (Writer{}).Write(path, []byte(tt.data), 0o644); changed || err != nil {
				t.Errorf("second call: %v, %v", changed, err)
			}
		})
	}
	t.Run("cannot become a link", func(t *testing.T) {
		path := bind(t, t.TempDir(), file("old\n"))
		changed, err := Writer{}.Symlink(path, "x")
		check(t, path, changed, false, err, unix.EBUSY, file("old\n"))
	})
	t.Run("cannot be removed", func(t *testing.T) {
		path := bind(t, t.TempDir(), file("old\n"))
		changed, err := Writer{}.Remove(path)
		check(t, path, changed, false, err, unix.EBUSY, file("old\n"))
	})
}

// TestFullDisk: on a full disk, content no longer than the old content is written in place, and
// longer content leaves the file unchanged.
func TestFullDisk(t *testing.T) {
	if !isolated(t) {
		return
	}
	tests := []struct {
		name, data string
		inodes     bool // the inodes are used up, not the blocks
		err        error
	}{
		{name: "shorter", data: "new\n"},
		{name: "as long", data: "new and as long\n"},
		{name: "longer", data: "new and much longer\n", err: unix.ENOSPC},
		{name: "shorter, without inodes", data: "new\n", inodes: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			mount(t, "full", dir, "tmpfs", 0, "size=16k,nr_inodes=4")
			path := filepath.Join(dir, "resolv.conf")
			before := file("old and as long\n")
			before.put(t, path)
			fill := func(name string, size int) error {
				return os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600)
			}
			if tt.inodes {
				fill("a", 0)
				fill("b", 0)
				if err := fill("c", 0); !errors.Is(err, unix.ENOSPC) {
					t.Fatalf("the file system still has an inode: %v", err)
				}
			} else if err := fill("a", 1<<20); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("the file system still has space: %v", err)
			}
			after := file(tt.data)
			if tt.err != nil {
				after = before
			}
			changed, err := Writer{}.Write(path, []byte(tt.data), 0o644)
			check(t, path, changed, tt.err == nil, err, tt.err, after)
		})
	}
}

// TestKillOnBindMount: writing in place is not atomic. After each step, every line must be
// completely old or completely new.
func TestKillOnBindMount(t *testing.T) {
	if !isolated(t) {
		return
	}
	path := bind(t, t.TempDir(), file(""))
	old := thing{file: "nameserver 10.0.0.2\nnameserver 10.0.0.3\n", mode: 0o600}
	prepare := func() {
		if err := os.WriteFile(path, []byte(old.file), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, old.mode); err != nil {
			t.Fatal(err)
		}
	}
	want := file("nameserver 10.0.0.9\n")
	whole := func(th thing) bool {
		return th.file == old.file || strings.TrimRight(th.file, "\n") == strings.TrimRight(want.file, "\n")
	}
	steps := testKills(t, job{Verb: "write", Path: path, Text: want.file}, prepare, whole, want)
	wantSteps := "create chmod label write sync rename inplace-open inplace-write inplace-truncate inplace-chmod inplace-sync leftover"
	if got := strings.Join(steps, " "); got != wantSteps {
		t.Errorf("steps %q, want %q", got, wantSteps)
	}
}

func TestReadOnly(t *testing.T) {
	if !isolated(t) {
		return
	}
	tests := []struct {
		name    string
		prepare func(t *testing.T, dir string) (path string)
		written bool
		err     error
	}{
		{"read-only bind mount of the file", func(t *testing.T, dir string) string {
			path := bind(t, dir, file("old\n"))
			remountReadOnly(t, path)
			return path
		}, false, unix.EROFS},
		{"read-only file system", func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "resolv.conf")
			file("old\n").put(t, path)
			mount(t, dir, dir, "", unix.MS_BIND, "")
			remountReadOnly(t, dir)
			return path
		}, false, unix.EROFS},
		{"writable bind mount in a read-only directory", func(t *testing.T, dir string) string {
			etc := filepath.Join(dir, "etc")
			path := bind(t, dir, file("old\n"))
			if err := unix.Unmount(path, 0); err != nil {
				t.Fatal(err)
			}
			mount(t, etc, etc, "", unix.MS_BIND, "")
			remountReadOnly(t, etc)
			mount(t, filepath.Join(dir, "source"), path, "", unix.MS_BIND, "")
			return path
		}, true, nil},
		{"immutable file", func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "resolv.conf")
			file("old\n").put(t, path)
			setImmutable(t, path)
			return path
		}, false, unix.EPERM},
		{"immutable directory", func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "etc", "resolv.conf")
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			file("old\n").put(t, path)
			setImmutable(t, filepath.Dir(path))
			return path
		}, false, unix.EPERM},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.prepare(t, flagged(t))
			if changed, err := (Writer{}).Write(path, []byte("old\n"), 0o644); changed || err != nil {
				t.Errorf("unchanged content: %v, %v", changed, err)
			}
			after := file("old\n")
			if tt.written {
				after = file("new\n")
			}
			changed, err := Writer{}.Write(path, []byte("new\n"), 0o644)
			check(t, path, changed, tt.written, err, tt.err, after)
			if Blocked(err) == tt.written {
				t.Errorf("Blocked(%v) = %v", err, Blocked(err))
			}
		})
	}
}

// tmpfs returns a directory on a file system that supports labels, whatever the underlying one
// supports.
func tmpfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "")
	return dir
}

// flagged returns a directory on a file system that supports file flags: a tmpfs since Linux 6.0,
// or else the test's directory, whose flags an overlay may not pass on.
func flagged(t *testing.T) string {
	t.Helper()
	if dir := tmpfs(t); setFlags(t, dir, 0) == nil {
		return dir
	}
	return t.TempDir()
}

// setImmutable sets the immutable flag (chattr +i) until the test ends.
func setImmutable(t *testing.T, path string) {
	t.Helper()
	const immutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h
	err := setFlags(t, path, immutable)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		lab.Skip(t, "this file system has no immutable files")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = setFlags(t, path, 0) })
}

func setFlags(t *testing.T, path string, flags int) error {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

func TestFullFileSystem(t *testing.T) {
	if !isolated(t) {
		return
	}
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=64k")
	path := filepath.Join(dir, "resolv.conf")
	file("old\n").put(t, path)
	changed, err := Writer{}.Write(path, []byte(strings.Repeat("x", 1<<20)), 0o644)
	check(t, path, changed, false, err, unix.ENOSPC, file("old\n"))
	if Blocked(err) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Blocked is true for a full file system: %v", err)
	}
}
