package control

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// serve runs a control socket at path. stop ends it and returns the result of Serve. The end of the
// test also stops it.
func serve(t *testing.T, path string, status func(context.Context) Status) (stop func() error) {
	t.Helper()
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, API{Status: status}) }()
	ended := false
	stop = func() error {
		cancel()
		ended = true
		return <-done
	}
	t.Cleanup(func() {
		if !ended {
			if err := stop(); err != nil {
				t.Errorf("stopping: %v", err)
			}
		}
	})
	return stop
}

func socketPath(t *testing.T) string { return SocketPath(lab.ShortDir(t)) }

func TestSocketPath(t *testing.T) {
	for root, want := range map[string]string{"": "/run/node-dns/control.sock", "/": "/run/node-dns/control.sock", "/x/": "/x/run/node-dns/control.sock"} {
		if got := SocketPath(root); got != want {
			t.Errorf("root %q: %s", root, got)
		}
	}
}

func TestStatusOverTheSocket(t *testing.T) {
	path := socketPath(t)
	want := busy()
	serve(t, path, func(context.Context) Status { return want })
	got, err := FetchStatus(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
	// Each request fetches a new status.
	want.Queries.UDP++
	if got, err := FetchStatus(t.Context(), path); err != nil || got.Queries.UDP != want.Queries.UDP {
		t.Errorf("%d queries: %v", got.Queries.UDP, err)
	}
}

func TestSocketMode(t *testing.T) {
	for _, umask := range []int{0, 0o077, 0o777} {
		path := socketPath(t)
		old := syscall.Umask(umask)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		listener, listenErr := Listen(path)
		syscall.Umask(old)
		if err != nil || listenErr != nil {
			if umask == 0o777 && os.Geteuid() != 0 {
				continue // the directory is not accessible to us
			}
			t.Fatal(err, listenErr)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != fs.ModeSocket|0o666 {
			t.Errorf("umask %o: %v, %v", umask, info.Mode(), err)
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSecondDaemonIsRefused(t *testing.T) {
	path := socketPath(t)
	serve(t, path, func(context.Context) Status { return Status{PID: 1} })
	if second, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another node-dns already uses this socket") {
		t.Errorf("%v, %v", second, err)
	}
	if s, err := FetchStatus(t.Context(), path); err != nil || s.PID != 1 {
		t.Errorf("got PID %d from the first daemon: %v", s.PID, err)
	}
}

// TestLeftSockets proves that the socket of a killed daemon, or another file in its place, is
// replaced.
func TestLeftSockets(t *testing.T) {
	stale := func(t *testing.T, path string) {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	tests := map[string]func(t *testing.T, path string){
		"a dead socket":                  stale,
		"a dead socket, not yet renamed": func(t *testing.T, path string) { stale(t, path+".new") },
		"a file": func(t *testing.T, path string) {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a link to nowhere": func(t *testing.T, path string) {
			if err := os.Symlink("/nowhere", path); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, leave := range tests {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			leave(t, path)
			serve(t, path, func(context.Context) Status { return Status{PID: 7} })
			if s, err := FetchStatus(t.Context(), path); err != nil || s.PID != 7 {
				t.Errorf("got PID %d: %v", s.PID, err)
			}
			checkOnlySocket(t, path)
		})
	}
}

func checkOnlySocket(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("got unexpected files %v, %v", entries, err)
	}
}

func TestListenFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, part := range map[string]string{
		filepath.Join(dir, strings.Repeat("x", 120)): "at most 103 bytes",
		filepath.Join(dir, "file", "control.sock"):   "creating the directory of the control socket",
	} {
		if l, err := Listen(path); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, %v", path, l, err)
		}
	}
	// A directory at the path stays, and no other file is left behind.
	path := socketPath(t)
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(path); err == nil {
		t.Errorf("replaced a directory: %v", l)
	}
	checkOnlySocket(t, path)
}

func TestNotRunning(t *testing.T) {
	path := socketPath(t)
	if _, err := FetchStatus(t.Context(), path); !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v without a socket", err)
	}
	stop := serve(t, path, func(context.Context) Status { return Status{} })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := FetchStatus(t.Context(), path); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v after the stop", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := FetchStatus(t.Context(), path); !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v for a plain file", err)
	}
}

// TestStuckDaemon proves that a daemon that does not answer in time is not reported as "not
// running".
func TestStuckDaemon(t *testing.T) {
	path := socketPath(t)
	release := make(chan struct{})
	serve(t, path, func(context.Context) Status { <-release; return Status{} })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := FetchStatus(ctx, path); !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v", err)
	}
}
