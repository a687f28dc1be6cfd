package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestIdleWakesFewThreads counts the wake-ups of an idle daemon per round of the watchdog, which is
// 75 times as fast here as on a node. Each timer of Go's runtime and each system call that its
// scheduler knows of adds three or more. With both, and queries to its own listeners, the daemon
// made 24.
func TestIdleWakesFewThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("starts daemons")
	}
	t.Parallel()
	root := lab.ShortDir(t)
	path := filepath.Join(root, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := socket.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("node-dns", "--root", root, "serve", "--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0", "--upstream", "127.0.0.254:9")
	daemon.Env = append(os.Environ(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=40000", "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere")
	var output strings.Builder
	daemon.Stdout, daemon.Stderr = &output, &output
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		daemon.Process.Kill()
		_ = daemon.Wait()
		if t.Failed() {
			t.Log(output.String())
		}
	}()
	rounds := func(n int) (switches int) {
		in := make([]byte, 100)
		for n > 0 {
			size, err := socket.Read(in)
			if err != nil {
				t.Fatal(err)
			}
			if string(in[:size]) == "WATCHDOG=1" {
				n--
			}
		}
		return voluntarySwitches(t, daemon.Process.Pid)
	}
	const many = 100
	before := rounds(many)
	got := float64(rounds(many)-before) / many
	t.Logf("%.2f wake-ups per round", got)
	if got > 4 {
		t.Errorf("got %.2f wake-ups per round, want 4 at most", got)
	}
}

// voluntarySwitches returns how often the threads of a process have waited.
func voluntarySwitches(t *testing.T, pid int) (total int) {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d threads, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		if _, err := fmt.Sscan(after, &n); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		total += n
	}
	return total
}
