// Package daemontest runs the whole daemon within a test, on loopback.
package daemontest

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/daemon"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// Receivers is the number of the daemon's receivers: more than one, as on a node, so that queries
// take the same paths.
const Receivers = 2

// Run runs the daemon on a loopback port until the end of the test. yaml is its node-dns.yaml, and
// upstream is its upstream nameserver. It sees a host without network devices and NetworkManager.
// Run returns when the daemon listens.
func Run(t *testing.T, yaml string, upstream netip.AddrPort) netip.AddrPort {
	t.Helper()
	root := lab.ShortDir(t)
	config := filepath.Join(root, "node-dns.yaml")
	write(t, config, yaml)
	return run(t, daemon.Config{
		Root: root, ConfigFile: config, Upstreams: []nameserver.Server{{Addr: upstream}},
		Looker: hostdns.Looker{Net: func(context.Context) (netstate.State, error) { return netstate.State{}, nil }},
	})
}

// RunFiles is Run with the files of a node, by their paths below the new directory root. The host
// has the network devices of policytest.Node.
func RunFiles(t *testing.T, files map[string]string) (root string, at netip.AddrPort) {
	t.Helper()
	root = lab.MemoryDir(t)
	for path, text := range files {
		write(t, filepath.Join(root, path), text)
	}
	return root, run(t, daemon.Config{
		Root:   root,
		Looker: hostdns.Looker{Net: func(context.Context) (netstate.State, error) { return policytest.Node(), nil }},
	})
}

// write writes a file and creates its directory.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a daemon without NetworkManager on a loopback port, and returns when it listens.
func run(t *testing.T, config daemon.Config) netip.AddrPort {
	t.Helper()
	config.Listen, config.Receivers = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Receivers
	config.Looker.NetworkManager = func(context.Context) (nm.Snapshot, error) { return nm.Snapshot{}, nm.ErrNotRunning }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, config) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, err := control.FetchStatus(t.Context(), control.SocketPath(config.Root))
		if err == nil && len(status.Listeners) > 0 && status.Listeners[0].UDP {
			return netip.MustParseAddrPort(status.Listeners[0].Address)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the daemon does not come up: %v", err)
		}
	}
}
