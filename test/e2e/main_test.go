// Package e2e tests node-dns over DNS against a real Kubernetes API. scripts/test-kube builds the
// programs and runs the tests.
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
	product    = "../.."           // root of the tested module
	scratchEnv = "NODEDNS_E2E_DIR" // directory of the node-dns that TestMain builds, and of the nodes' roots
)

func TestMain(m *testing.M) {
	status, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		status = 1
	}
	os.Exit(status)
}

// run sets up what all tests share, runs them, and cleans up.
func run(m *testing.M) (status int, err error) {
	scratch, err := os.MkdirTemp("", "node-dns-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	os.Setenv(scratchEnv, scratch)
	flag.Parse()
	if !isBenchmark() {
		// For TestFleet: use plain lists, as with an API server before 1.34. client-go reads this
		// at its first use.
		os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	}
	if err := buildNodeDNS(scratch); err != nil {
		return 0, err
	}
	defer static.close()
	defer controlled.close()
	defer measured.print(os.Stdout)
	return m.Run(), nil
}

func isBenchmark() bool { return flag.Lookup("test.bench").Value.String() != "" }

// buildNodeDNS builds the daemon, its helper and the plugin of kubectl, with the race detector if
// there is a C compiler.
func buildNodeDNS(dir string) error {
	flags, cgo := []string{"build", "-C", product, "-o", dir + "/"}, "CGO_ENABLED=0"
	if _, err := exec.LookPath("gcc"); err == nil && !isBenchmark() {
		flags, cgo = append(flags, "-race"), "CGO_ENABLED=1"
	}
	build := exec.Command("go", append(flags, "./cmd/node-dns", "./cmd/node-dns-intercept", "./cmd/kubectl-node_dns")...)
	build.Env = append(os.Environ(), cgo)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building node-dns: %w\n%s", err, out)
	}
	return nil
}

// newKube starts a separate control plane for the test.
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

// programs returns the directory of the programs of Kubernetes and Helm. If they were not built,
// the test is skipped, or fails if it must run.
func programs(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(product + "/bin/kube")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "helm"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			lab.Skip(t, "scripts/test-kube builds it: %v", err)
		}
	}
	return dir
}
