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
	if err := os.WriteFile(config, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			Root: root, ConfigFile: config, Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
			Upstreams: []nameserver.Server{{Addr: upstream}}, Receivers: Receivers,
			Looker: hostdns.Looker{
				Net:            func(context.Context) (netstate.State, error) { return netstate.State{}, nil },
				NetworkManager: func(context.Context) (nm.Snapshot, error) { return nm.Snapshot{}, nm.ErrNotRunning },
			},
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, err := control.FetchStatus(t.Context(), control.SocketPath(root))
		if err == nil && len(status.Listeners) > 0 && status.Listeners[0].UDP {
			return netip.MustParseAddrPort(status.Listeners[0].Address)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the daemon does not come up: %v", err)
		}
	}
}
