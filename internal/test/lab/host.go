package lab

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// AsNobody runs f without root's access to files, because tests may run as root and the daemon does
// not. f must not start goroutines or end the test: setfsuid(2) applies to a single thread, which
// also loses CAP_DAC_*, and f runs on its own.
func AsNobody(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if os.Geteuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				panic(err) // cannot fail
			}
		}
		f()
	}()
	<-done
}

// OpenDir is MemoryDir for a test with AsNobody: every user may enter it.
func OpenDir(t testing.TB) string {
	t.Helper()
	dir := MemoryDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm()&0o5 == 0o5 {
			continue // such as /dev/shm
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// MemoryDir is ShortDir in memory, if the host has a tmpfs: a test that replaces many files does
// not wait for the disk at each fsync(2). Programs may not be executable there (noexec).
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "node-dns-")
	if err != nil {
		return ShortDir(t)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// ShortDir is t.TempDir for unix sockets, whose paths have at most 107 bytes (unix(7)), whatever
// the name of the test.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "node-dns-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Tree returns a new directory with these files. The keys are paths below it.
func Tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Text collects output, usually a log, while the test reads it. It is safe for concurrent use.
type Text struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

var _ io.Writer = (*Text)(nil)

func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns everything written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
