// Package e2e runs node-dns against a real Kubernetes API, and asks it over DNS. scripts/test-kube builds what it needs and runs it.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

const (
	product    = "../.."           // the root of the module under test
	scratchEnv = "NODEDNS_E2E_DIR" // where TestMain builds node-dns, and the roots of nodes are
)

func TestMain(m *testing.M) {
	status, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		status = 1
	}
	os.Exit(status)
}

// run makes what all tests share, runs them, and removes it.
func run(m *testing.M) (status int, err error) {
	scratch, err := os.MkdirTemp("", "node-dns-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	os.Setenv(scratchEnv, scratch)
	// For TestFleet: a list is a list, as with an API server before 1.34. client-go looks once, at its first use.
	os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	flag.Parse()
	if err := buildNodeDNS(scratch); err != nil {
		return 0, err
	}
	defer static.close()
	defer controlled.close()
	defer measured.print(os.Stdout)
	return m.Run(), nil
}

func isBenchmark() bool { return flag.Lookup("test.bench").Value.String() != "" }

// buildNodeDNS builds the daemon, with the race detector where there is a C compiler for it.
func buildNodeDNS(dir string) error {
	flags, cgo := []string{"build", "-C", product, "-o", dir + "/"}, "CGO_ENABLED=0"
	if _, err := exec.LookPath("gcc"); err == nil && !isBenchmark() {
		flags, cgo = append(flags, "-race"), "CGO_ENABLED=1"
	}
	build := exec.Command("go", append(flags, "./cmd/node-dns")...)
	build.Env = append(os.Environ(), cgo)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building node-dns: %w\n%s", err, out)
	}
	return nil
}

// newKube starts a control plane of the test's own.
func newKube(t testing.TB, config kube.Config) *kube.Cluster {
	t.Helper()
	config.Programs = programs(t)
	c, err := kube.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// programs is the directory of the control plane's programs. Where they were not built the test skips, or fails where it must run.
func programs(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(product + "/bin/kube")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			lab.Skip(t, "scripts/test-kube builds it: %v", err)
		}
	}
	return dir
}
