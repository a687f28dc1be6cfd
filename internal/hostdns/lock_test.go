package hostdns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// holderEnv names the lock that a child of the test holds until the test kills it.
const holderEnv = "HOSTDNS_TEST_HOLD"

func holdLock(path string) int {
	if _, err := Lock(context.Background(), path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin) // until the test kills this process or ends
	return 0
}

func TestLockSerialisesRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "lock")
	var inside, runs atomic.Int32
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			unlock, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d runs at a time", n)
			}
			runtime.Gosched()
			runs.Add(1)
			inside.Add(-1)
			unlock()
		})
	}
	wait.Wait()
	if n := runs.Load(); n != 8 {
		t.Errorf("%d runs", n)
	}
}

func TestLockOfKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holder := exec.Command("/proc/self/exe")
	holder.Env = append(os.Environ(), holderEnv+"="+path)
	holder.Stderr = os.Stderr
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("got %q from the holder: %v", line, err)
	}

	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := Lock(short, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the lock is held, and Lock returned %v", err)
	}

	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := holder.Wait(); err == nil {
		t.Error("the holder was not killed")
	}
}

func TestLockRefuses(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		want       error
	}{
		{"a link, which another user may have put there", filepath.Join(dir, "link"), syscall.ELOOP},
		{"a directory", dir, syscall.EISDIR},
		{"below a file", filepath.Join(dir, "file", "lock"), syscall.ENOTDIR},
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Lock(t.Context(), test.path); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
}

func TestLockOfEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// A free lock is still taken: the holder decides what to do with the remaining time.
	unlock, err := Lock(ctx, filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
