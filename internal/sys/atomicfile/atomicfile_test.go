package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestWrite(t *testing.T) {
	tests := []struct {
		name    string
		before  thing
		left    thing // at the temporary name
		data    string
		perm    fs.FileMode // 0 means 0644
		changed bool
		err     error
		after   thing // zero means data and 0644
	}{
		{name: "new", data: "new\n", changed: true},
		{name: "new and empty", changed: true},
		{name: "other content", before: file("old\n"), data: "new and longer\n", changed: true},
		{name: "same size", before: file("old\n"), data: "new\n", changed: true},
		{name: "shorter", before: file("old and longer\n"), data: "new\n", changed: true},
		{name: "same", before: file("same\n"), data: "same\n"},
		// The old script left mode 0600, so no user could resolve names.
		{name: "same with another mode", before: thing{file: "same\n", mode: 0o600}, data: "same\n", changed: true},
		{name: "other mode", data: "secret\n", perm: 0o640, changed: true, after: thing{file: "secret\n", mode: 0o640}},
		{name: "same with the sticky bit", before: thing{file: "same\n", mode: 0o644 | fs.ModeSticky}, data: "same\n", changed: true},
		{name: "dangling link", before: thing{link: "nowhere"}, data: "new\n", changed: true},
		{name: "link to the same content", before: thing{link: "target"}, data: "target\n", changed: true},
		{name: "fifo", before: thing{fifo: true}, data: "new\n", changed: true},
		{name: "fifo, which reads as empty", before: thing{fifo: true}, changed: true},
		{name: "directory", before: thing{dir: true}, data: "new\n", err: fs.ErrExist, after: thing{dir: true}},
		{name: "leftover", before: file("old\n"), left: file("half"), data: "new\n", changed: true},
		{name: "leftover next to the same content", before: file("same\n"), left: thing{file: "half", mode: 0o400}, data: "same\n"},
		{name: "leftover that is a link", left: thing{link: "target"}, data: "new\n", changed: true},
		{name: "leftover that is a fifo", left: thing{fifo: true}, data: "new\n", changed: true},
	}
	defer syscall.Umask(syscall.Umask(0o077))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path, target := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "target")
			tt.before.put(t, path)
			tt.left.put(t, tempName(path))
			file("target\n").put(t, target)
			if tt.perm == 0 {
				tt.perm = 0o644
			}
			if tt.after == (thing{}) {
				tt.after = file(tt.data)
			}
			before, targetBefore := identity(t, path), identity(t, target)
			changed, err := Writer{}.Write(path, []byte(tt.data), tt.perm)
			check(t, path, changed, tt.changed, err, tt.err, tt.after)
			if same := identity(t, path) == before; same == tt.changed {
				t.Errorf("the file was not replaced: %v", same)
			}
			if identity(t, target) != targetBefore {
				t.Error("wrote through a link")
			}
			before = identity(t, path)
			if changed, _ := (Writer{}).Write(path, []byte(tt.data), tt.perm); changed || identity(t, path) != before {
				t.Error("the second call changed something")
			}
		})
	}
}

func TestWriteWithoutDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "file")
	changed, err := Writer{}.Write(path, []byte("new\n"), 0o644)
	if want := "writing " + path + ": "; changed || err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("changed = %v, error %v; want one with %q", changed, err, want)
	}
}

// TestWriteFollowsNoPlantedLink: in a directory that others can write to, a link could be planted
// at the name of the temporary file.
func TestWriteFollowsNoPlantedLink(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "victim")
	file("old\n").put(t, path)
	for _, planted := range []thing{{link: "victim"}, {link: "nowhere"}, file("planted\n")} {
		t.Run(planted.String(), func(t *testing.T) {
			if err := os.RemoveAll(victim); err != nil {
				t.Fatal(err)
			}
			file("victim\n").put(t, victim)
			w := Writer{Step: func(step string) {
				if step == "create" {
					planted.put(t, tempName(path))
				}
			}}
			changed, err := w.Write(path, []byte("new\n"), 0o644)
			check(t, path, changed, false, err, fs.ErrExist, file("old\n"))
			if got := at(t, victim); got != file("victim\n") {
				t.Errorf("the link's target became %v", got)
			}
		})
	}
}

func TestSymlink(t *testing.T) {
	tests := []struct {
		name         string
		before, left thing
		changed      bool
		err          error
		after        thing // zero means the link
	}{
		{name: "new", changed: true},
		{name: "same", before: thing{link: "../run/stub.conf"}},
		{name: "other link", before: thing{link: "elsewhere"}, changed: true},
		{name: "file", before: file("old\n"), changed: true},
		{name: "leftover", before: file("old\n"), left: file("half"), changed: true},
		{name: "leftover beside the same", before: thing{link: "../run/stub.conf"}, left: thing{link: "x"}},
		{name: "directory", before: thing{dir: true}, err: fs.ErrExist, after: thing{dir: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			tt.before.put(t, path)
			tt.left.put(t, tempName(path))
			if tt.after == (thing{}) {
				tt.after = thing{link: "../run/stub.conf"}
			}
			before := identity(t, path)
			changed, err := Writer{}.Symlink(path, "../run/stub.conf")
			check(t, path, changed, tt.changed, err, tt.err, tt.after)
			if same := identity(t, path) == before; same == tt.changed {
				t.Errorf("the link was not replaced: %v", same)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	tests := []struct {
		name         string
		before, left thing
		changed      bool
		err          error
		after        thing
	}{
		{name: "nothing"},
		{name: "file", before: file("old\n"), changed: true},
		{name: "dangling link", before: thing{link: "nowhere"}, changed: true},
		{name: "leftover", left: file("half")},
		{name: "empty directory", before: thing{dir: true}, err: syscall.EISDIR, after: thing{dir: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			tt.before.put(t, path)
			tt.left.put(t, tempName(path))
			changed, err := Writer{}.Remove(path)
			check(t, path, changed, tt.changed, err, tt.err, tt.after)
		})
	}
}

func TestBlocked(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, syscall.EROFS: true, syscall.EPERM: true, syscall.EACCES: true,
		syscall.ENOENT: false, syscall.ENOSPC: false, syscall.EBUSY: false,
		fmt.Errorf("writing: %w", &fs.PathError{Err: syscall.EROFS}): true,
	} {
		if Blocked(err) != want {
			t.Errorf("Blocked(%v) is not %v", err, want)
		}
	}
}

// TestReadersSeeWholeFiles: a reader that opens the file repeatedly sees only complete contents.
func TestReadersSeeWholeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	contents := []string{strings.Repeat("a", 40_000), strings.Repeat("b", 90_000)}
	file(contents[0]).put(t, path)
	done := make(chan struct{})
	torn := make(chan string, 1)
	go func() {
		defer close(torn)
		for {
			select {
			case <-done:
				return
			default:
			}
			data, err := os.ReadFile(path)
			if err != nil || !slices.Contains(contents, string(data)) {
				torn <- fmt.Sprintf("%d bytes, %v", len(data), err)
				return
			}
		}
	}()
	for i := range 100 {
		if _, err := (Writer{}).Write(path, []byte(contents[(i+1)%2]), 0o644); err != nil {
			t.Error(err)
		}
	}
	close(done)
	if what, ok := <-torn; ok {
		t.Errorf("a reader saw %s", what)
	}
}

// TestCheckInPlace: a file that is written in place is checked, too.
func TestCheckInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("newer"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	w := Writer{Check: func(string) error { return refused }}
	changed, err := w.writeInPlace(path, []byte("ours"), 0o644, syscall.EROFS)
	if got, _ := os.ReadFile(path); changed || !errors.Is(err, refused) || string(got) != "newer" {
		t.Errorf("changed %v, error %v, content %q", changed, err, got)
	}
}
