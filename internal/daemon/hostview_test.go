package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// looksOnly returns a daemon with this root that only looks at the host.
func looksOnly(t *testing.T, root, configFile string) *Daemon {
	t.Helper()
	d, err := New(Config{Root: root, ConfigFile: configFile, Looker: hostdns.Looker{
		Net:            func(context.Context) (netstate.State, error) { return policytest.Node(), nil },
		NetworkManager: func(context.Context) (nm.Snapshot, error) { return nm.Snapshot{}, nm.ErrNotRunning },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func look(t *testing.T, d *Daemon) *view.Host {
	t.Helper()
	seen, err := newFollower(d).lookAtHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// TestConfigFile: a daemon with its own configuration file wanted other host files than the hook
// wrote, and requested them forever.
func TestConfigFile(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, "own.yaml")
	write(t, filepath.Join(root, "/etc/resolv.conf"), "nameserver 10.0.0.2\n")
	write(t, own, "clusterDomain: own.example\n")
	for _, step := range look(t, looksOnly(t, root, "")).Plan.Steps(true) { // as the hook writes them, without knowing that file
		write(t, step.Path, string(step.Data))
	}
	d := looksOnly(t, root, own)
	seen := look(t, d)
	if got := seen.Config.ClusterDomain.String(); got != "own.example." {
		t.Errorf("serves %s", got)
	}
	if got := seen.Pending([]netip.AddrPort{netip.MustParseAddrPort("192.0.2.10:53")}); len(got) > 0 {
		t.Errorf("still wants %v written", got)
	}
	write(t, own, "clusterDomain: [\n")
	if got := strings.Join(look(t, d).Problems(), "\n"); strings.Count(got, "own.yaml:1:") != 1 {
		t.Errorf("a fault in the file: problems %q", got)
	}
	os.Remove(own)
	// A reload after the file was deleted used to apply all defaults.
	if seen := look(t, d); seen.ConfigErr == nil || !strings.Contains(seen.ConfigErr.Error(), "own.yaml: no such file") {
		t.Errorf("the file is gone: %v", seen.ConfigErr)
	}
}

// TestConfigFileOfTheHook: if the command line names the hook's own file, it does not count as a
// separate file.
func TestConfigFileOfTheHook(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "/etc/node-dns/node-dns.yaml")
	write(t, path, "clusterDomain: [\n")
	d := looksOnly(t, root, path)
	if got := look(t, d).Problems(); d.config.ConfigFile != "" || len(got) != 1 {
		t.Errorf("ConfigFile %q; problems %q", d.config.ConfigFile, got)
	}
}

// TestSlowNetworkManager: a single NetworkManager timeout used to be a problem in the status.
func TestSlowNetworkManager(t *testing.T) {
	t.Parallel()
	var asked, hangs atomic.Int32 // hangs: number of queries that time out
	r := start(t, map[string]string{}, func(c *Config) {
		c.Looker.NetworkManager = func(context.Context) (nm.Snapshot, error) {
			asked.Add(1)
			if hangs.Add(-1) >= 0 {
				return nm.Snapshot{}, fmt.Errorf("asking NetworkManager: %w", context.DeadlineExceeded)
			}
			return nm.Snapshot{Version: "1.42.4"}, nil
		}
	})
	problem := func() string {
		for _, p := range r.status().Problems { // the status request looks first
			if strings.Contains(p, "asking NetworkManager") {
				return p
			}
		}
		return ""
	}
	hangs.Store(2)
	for i := range 3 {
		if p := problem(); p != "" {
			t.Errorf("look %d: %s", i, p)
		}
	}
	hangs.Store(1 << 30)
	before := asked.Load()
	r.daemon.hint("test")
	r.await("the daemon retries by itself", func() bool { return asked.Load() >= before+3 })
	r.await("the problem", func() bool { return strings.Contains(problem(), "; the last answer came at 20") })
	hangs.Store(0)
	r.await("the problem is solved", func() bool { return problem() == "" })
}
