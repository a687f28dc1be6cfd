package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestWatchFiles: a change of any file that affects what is served is a hint. The uplinks of
// systemd-resolved and the configuration files used to be missing.
func TestWatchFiles(t *testing.T) {
	t.Parallel()
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

// TestWatchMounted: a write to the file that is mounted over resolv.conf is a hint, although no
// directory that is watched reports it. It used to be noticed at the next periodic check. A hard
// link stands in for the mount.
func TestWatchMounted(t *testing.T) {
	root := t.TempDir()
	paths := hostdns.NewPaths(root)
	d, err := New(Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(root, "mounted")
	write(t, paths.ResolvConf, "nameserver 10.0.0.1\n")
	if err := os.Link(paths.ResolvConf, mounted); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.watchFiles(ctx) }()
	lab.Poll(lookAgain/2, func() bool {
		if err := os.WriteFile(mounted, []byte("nameserver 10.0.0.2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return len(d.hints) > 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	select {
	case got := <-d.hints:
		if want := "file: " + paths.ResolvConf; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	default:
		t.Error("no hint")
	}
}

// TestWatchConfigMap: the kubelet changes the files of a ConfigMap by renaming ..data, through
// which they are links. That used to be noticed at the next periodic check, up to a minute later.
func TestWatchConfigMap(t *testing.T) {
	root := t.TempDir()
	d, err := New(Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(nodeconfig.DefaultPaths(root).NodeDNS)
	version := 0
	publish := func() {
		version++
		name := fmt.Sprintf("..version-%d", version)
		write(t, filepath.Join(dir, name, "node-dns.yaml"), "cacheSize: 10\n")
		if err := errors.Join(os.Symlink(name, filepath.Join(dir, "..data_tmp")), os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	if err := os.Symlink("..data/node-dns.yaml", filepath.Join(dir, "node-dns.yaml")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.watchFiles(ctx) }()
	lab.Poll(lookAgain/2, func() bool {
		publish()
		return len(d.hints) > 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	select {
	case got := <-d.hints:
		if want := "file: " + filepath.Join(dir, "..data"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	default:
		t.Error("no hint")
	}
}
