package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(victimEnv); job != "" {
		os.Exit(victim(job))
	}
	os.Exit(m.Run())
}

// A thing is what exists at a path. The zero thing means that nothing exists.
type thing struct {
	file string // content of a regular file; mode is set too
	mode fs.FileMode
	link string // target of a symbolic link
	dir  bool
	fifo bool
}

func file(text string) thing { return thing{file: text, mode: 0o644} }

func (th thing) String() string {
	switch {
	case th.dir:
		return "directory"
	case th.fifo:
		return "fifo"
	case th.link != "":
		return "link to " + th.link
	case th.mode == 0:
		return "nothing"
	}
	return fmt.Sprintf("%v %q", th.mode, th.file)
}

// put creates th at path, regardless of the umask.
func (th thing) put(t *testing.T, path string) {
	t.Helper()
	var err error
	switch {
	case th.dir:
		err = os.Mkdir(path, 0o755)
	case th.fifo:
		if err = syscall.Mkfifo(path, 0o600); err == nil {
			err = os.Chmod(path, 0o644)
		}
	case th.link != "":
		err = os.Symlink(th.link, path)
	case th.mode != 0:
		if err = os.WriteFile(path, []byte(th.file), 0o600); err == nil {
			err = os.Chmod(path, th.mode)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// at returns the thing at path.
func at(t *testing.T, path string) thing {
	t.Helper()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return thing{}
	}
	if err != nil {
		t.Fatal(err)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return thing{dir: true}
	case fs.ModeNamedPipe:
		return thing{fifo: true}
	case fs.ModeSymlink:
		link, err := os.Readlink(path)
		if err != nil {
			t.Fatal(err)
		}
		return thing{link: link}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return thing{file: string(data), mode: info.Mode()}
}

// identity returns a value that changes when the file at path is replaced, written or changed.
func identity(t *testing.T, path string) string {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); errors.Is(err, syscall.ENOENT) {
		return "nothing"
	} else if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(st.Ino, st.Mtim, st.Ctim)
}

func checkNoTemp(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), "tmp") {
			t.Errorf("%s was left behind", filepath.Join(dir, entry.Name()))
		}
	}
}

// check compares the result and effect of a call with the expected ones.
func check(t *testing.T, path string, changed, wantChanged bool, err, wantErr error, want thing) {
	t.Helper()
	if !errors.Is(err, wantErr) {
		t.Errorf("error %v, want %v", err, wantErr)
	}
	if changed != wantChanged {
		t.Errorf("changed = %v", changed)
	}
	if got := at(t, path); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	checkNoTemp(t, filepath.Dir(path))
}
