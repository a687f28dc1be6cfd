package daemon

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
)

// TestWatchFiles: a change of any file that decides the upstreams is a hint. The uplinks of systemd-resolved were not
// among them.
func TestWatchFiles(t *testing.T) {
	root := t.TempDir()
	paths := hostdns.NewPaths(root)
	for _, path := range []string{paths.ResolvConf, paths.NetworkManagerConf, paths.ResolvedUplinks, paths.Upstreams, paths.NodeResolvConf, paths.Record} {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			d, err := New(Config{Root: root})
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, "# before\n")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- d.watchFiles(ctx) }()
			// Written until it is seen: watching begins some time after the call.
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
