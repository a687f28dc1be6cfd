package daemon

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
)

// TestWatchFiles: a change of any file that affects what is served is a hint. The uplinks of
// systemd-resolved and the configuration files used to be missing.
func TestWatchFiles(t *testing.T) {
	root := t.TempDir()
	paths := hostdns.NewPaths(root)
	config := nodeconfig.DefaultPaths(root)
	recursive := filepath.Join(root, "/etc/dns/up.conf")
	for _, path := range []string{
		paths.ResolvConf, paths.NetworkManagerConf, paths.ResolvedUplinks, paths.Upstreams, paths.NodeResolvConf, paths.Record, paths.Facts,
		config.NodeConfig, config.Bootstrap, config.Kubelet, config.NodeDNS, recursive,
	} {
		t.Run(path[len(root):], func(t *testing.T) {
			d, err := New(Config{Root: root})
			if err != nil {
				t.Fatal(err)
			}
			d.build(&policy.Policy{Config: nodeconfig.Config{DNSRecursiveResolvConf: recursive}})
			defer d.resolver.Close()
			write(t, path, "# before\n")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- d.watchFiles(ctx) }()
			// Write repeatedly until it is seen: watching begins some time after the call.
			again, enough := time.NewTicker(5*time.Millisecond), time.After(lookAgain)
			defer again.Stop()
			for hinted := false; !hinted; {
				select {
				case reason := <-d.hints:
					hinted = reason == "file: "+path
				case <-again.C:
					write(t, path, "nameserver 10.0.0.2\n")
				case <-enough:
					t.Fatal("no hint")
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
