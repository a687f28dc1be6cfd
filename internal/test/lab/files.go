package lab

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// WriteFile writes a file of the machine with mode 0644 and makes its directory.
func (l *Lab) WriteFile(path, content string) {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// ReadFile returns the content of a file of the machine, or "" if it does not exist.
func (l *Lab) ReadFile(path string) string {
	l.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Fatal(err)
	}
	return string(data)
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
