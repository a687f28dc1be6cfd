package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestServiceAccount: in a pod, the daemon uses the pod's credentials unless a kubeconfig exists.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, api string
		files     map[string]string
		want      string // the kubeconfig, below the root
	}{
		{"in a pod", "10.96.0.1:443", map[string]string{nodeconfig.ServiceAccountDir + "/token": "secret"}, "/run/node-dns/kubeconfig"},
		{"in a pod with a kubeconfig", "10.96.0.1:443", map[string]string{nodeconfig.ServiceAccountDir + "/token": "secret", kubeconfigPath: "{}"}, kubeconfigPath},
		{"in a pod without a ServiceAccount", "10.96.0.1:443", map[string]string{}, ""},
		{"outside of a pod", "", map[string]string{nodeconfig.ServiceAccountDir + "/token": "secret"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.files[upstreamPath] = upstreamFile(dnstest.NewServer(t, siteRecords))
			r := start(t, test.files, func(c *Config) { c.APIServer, c.NodeName = test.api, "node-7" })
			api := r.daemon.policy().API
			if got := strings.TrimPrefix(api.Kubeconfig, r.root); got != test.want {
				t.Fatalf("got the kubeconfig %q, want %q", got, test.want)
			}
			if test.want != "" && api.Node != "node-7" {
				t.Errorf("got the node %q", api.Node)
			}
			if test.want == "/run/node-dns/kubeconfig" {
				r.await("a try of the API with these credentials", func() bool {
					c := r.status().Cluster.Resolver // no ca.crt, so it says what is missing
					return c != nil && strings.Contains(c.Error, filepath.Join(r.root, nodeconfig.ServiceAccountDir, "ca.crt"))
				})
			}
		})
	}
}
