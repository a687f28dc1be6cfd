package soak

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// node is node-dns with its own root directory.
type node struct {
	t       *testing.T
	root    string
	at      netip.AddrPort // address where it always listens
	process *lab.Process
}

// newNode returns a node without a process. It skips the test with -short.
func newNode(t *testing.T) *node {
	t.Helper()
	if testing.Short() {
		t.Skip("loads node-dns for up to a minute")
	}
	return &node{t: t, root: lab.ShortDir(t), at: dnstest.FreePort(t)}
}

// start starts the process. shell is a prefix of the shell command; it may be empty.
func (n *node) start(shell string) {
	n.t.Helper()
	process, err := lab.Beside(lab.Command{
		Argv: []string{"sh", "-c", shell + `exec "$0" "$@"`, program, "--root", n.root, "serve"},
		Env:  []string{"PATH=" + lab.Path, "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere"},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.process = process
	n.t.Cleanup(process.Stop)
	n.await("the node to listen", func(s control.Status) bool { return s.Ready })
}

// write replaces a file below the root atomically, like an editor.
func (n *node) write(path, text string) {
	path = filepath.Join(n.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		n.t.Fatal(err)
	}
}

// config is the content of node-dns.yaml.
type config struct {
	listen    []netip.AddrPort
	upstreams []netip.AddrPort
	level     string
	more      string // additional lines
}

func (n *node) configure(c config) {
	n.write("/etc/node-dns/node-dns.yaml", fmt.Sprintf("listen: [%s]\nupstreams: [%s]\nlogLevel: %s\ndbus: none\nresolvConf: none\n%s",
		list(c.listen), list(c.upstreams), c.level, c.more))
}

func list(all []netip.AddrPort) string {
	var texts []string
	for _, a := range all {
		texts = append(texts, strconv.Quote(a.String()))
	}
	return strings.Join(texts, ", ")
}

func (n *node) reload() { n.process.Signal(syscall.SIGHUP) }

// status fetches the status. ok is false if the daemon does not answer.
func (n *node) status() (control.Status, bool) {
	s, err := control.FetchStatus(n.t.Context(), control.SocketPath(n.root))
	return s, err == nil
}

func (n *node) await(what string, holds func(control.Status) bool) {
	n.t.Helper()
	ok := lab.Poll(30*time.Second, func() bool {
		s, ok := n.status()
		return ok && holds(s)
	})
	if !ok {
		n.t.Fatalf("timeout waiting for %s\n%s", what, n.process.Output())
	}
}

// end stops the process and requires that it exits.
func (n *node) end() {
	n.t.Helper()
	n.process.Signal(syscall.SIGTERM)
	if !lab.Poll(30*time.Second, func() bool { return !n.process.Running() }) {
		n.t.Error("the process did not end")
	}
}

// memory returns the current and the peak memory usage in MiB (proc_pid_status(5)).
func (n *node) memory() (now, most float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.PID()))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64) // the kernel writes numbers
		switch fields[0] {
		case "VmRSS:":
			now = kib / 1024
		case "VmHWM:":
			most = kib / 1024
		}
	}
	return now, most
}

func (n *node) files() int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.process.PID()))
	return len(entries)
}
