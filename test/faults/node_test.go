package faults

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/faultplan"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// node is a directory tree with node-dns running on it.
type node struct {
	t       *testing.T
	root    string
	config  string
	at      netip.AddrPort
	setup   faultplan.Setup
	process *lab.Process
}

func newNode(t *testing.T) *node {
	root := lab.ShortDir(t)
	return &node{t: t, root: root, config: filepath.Join(root, "node-dns.yaml"), at: dnstest.FreePort(t)}
}

// start starts node-dns, which stops at the end of the test.
func (n *node) start(setup faultplan.Setup) (*faultplan.Program, error) {
	n.setup = setup
	if err := n.configure(setup.Upstreams); err != nil {
		return nil, err
	}
	var err error
	n.process, err = lab.Beside(lab.Command{
		Argv: []string{program, "--root", n.root, "serve", "--config", n.config},
		Env:  []string{"PATH=" + lab.Path, "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere"},
	})
	if err != nil {
		return nil, err
	}
	n.t.Cleanup(n.process.Stop)
	if !lab.Poll(20*time.Second, n.listens) {
		return nil, fmt.Errorf("node-dns does not start: %s", n.process.Output())
	}
	return &faultplan.Program{
		At: n.at, Terminate: n.process.Stop, Running: n.process.Running, SetUpstreams: n.change,
		Memory: n.memory, CPU: n.cpu,
	}, nil
}

// configure writes the configuration. Without upstream nameservers, node-dns is its own upstream.
func (n *node) configure(upstreams []netip.AddrPort) error {
	if len(upstreams) == 0 {
		upstreams = []netip.AddrPort{n.at}
	}
	all, err := json.Marshal(upstreams)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("listen: [%q]\nupstreams: %s\nclusterDomain: cluster.test\nkubeconfig: none\ndbus: none\nresolvConf: none\ncacheSize: %d\n", n.at, all, n.setup.CacheSize)
	if n.setup.Zone != "" {
		text += fmt.Sprintf("routes: [{domain: %s, servers: [%q]}]\n", strings.TrimSuffix(n.setup.Zone, "."), n.setup.ZoneServer)
	}
	return os.WriteFile(n.config, []byte(text), 0o644)
}

func (n *node) status() (control.Status, error) {
	return control.FetchStatus(n.t.Context(), control.SocketPath(n.root))
}

func (n *node) listens() bool {
	status, err := n.status()
	return err == nil && len(status.Listeners) > 0 && status.Listeners[0].UDP
}

// change sets other upstream nameservers, and returns when node-dns uses them.
func (n *node) change(upstreams []netip.AddrPort) error {
	if err := n.configure(upstreams); err != nil {
		return err
	}
	n.process.Signal(syscall.SIGHUP)
	follows := func() bool {
		status, err := n.status()
		return err == nil && slices.ContainsFunc(status.Routes, func(r control.Route) bool {
			return r.Domain == "." && len(r.Servers) == 1 && r.Servers[0].Address == upstreams[0].String()
		})
	}
	if !lab.Poll(10*time.Second, follows) {
		return fmt.Errorf("node-dns does not query %v: %s", upstreams, n.process.Output())
	}
	return nil
}

func (n *node) memory() float64 {
	for line := range strings.Lines(n.proc("status")) {
		if fields := strings.Fields(line); fields[0] == "VmRSS:" {
			kib, _ := strconv.ParseFloat(fields[1], 64) // the kernel writes valid numbers
			return kib / 1024
		}
	}
	return 0
}

// cpu returns the process's user and kernel time (proc_pid_stat(5), fields 14 and 15).
func (n *node) cpu() (sum time.Duration) {
	text := n.proc("stat")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	for _, at := range []int{14, 15} {
		ticks, _ := strconv.Atoi(fields[at-3])
		sum += time.Duration(ticks) * time.Second / 100
	}
	return sum
}

// proc reads a /proc file of the process, which must be running.
func (n *node) proc(name string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", n.process.PID(), name))
	if err != nil {
		n.t.Error(err)
		return ") " + strings.Repeat("0 ", 20)
	}
	return string(text)
}
