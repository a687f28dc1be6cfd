package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/conformance"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

const kubernetesName = "kubernetes.default.svc.cluster.local"

// ownNode returns a node with a separate control plane that has one service.
func ownNode(t *testing.T) (*node, *kube.Cluster) {
	t.Helper()
	t.Parallel() // parallel, because these tests mostly wait
	c := newKube(t, kube.Config{})
	create(t, c, grants(objects(t, manifestFile))...)
	create(t, c, service(t, "default", "before", "{clusterIP: 10.97.3.1, ports: [{port: 80}]}"))
	n := newNode(t)
	n.credentials(c, kube.Reader())
	return n, c
}

// TestAPIRestarts: known names are answered while the API server is down, and changes in the
// meantime are seen after its return.
func TestAPIRestarts(t *testing.T) {
	n, c := ownNode(t)
	n.start()
	n.answers("before.default.svc.cluster.local", "A", "NOERROR A 10.97.3.1")
	tests := []struct {
		name, service, addr string
		stop                func()
		away                time.Duration
	}{
		{"killed", "killed", "10.97.3.2", c.KillAPI, 0},
		{"stopped", "stopped", "10.97.3.3", c.StopAPI, 0},
		// Long enough for the pauses between connection attempts to grow.
		{"away for long", "long", "10.97.3.4", c.StopAPI, 20 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.stop()
			for end := time.Now().Add(test.away); ; time.Sleep(100 * time.Millisecond) {
				if got := conformance.Gist(n.ask("before.default.svc.cluster.local", "A")); got != "NOERROR A 10.97.3.1" {
					t.Fatalf("while the API server is away: %s", got)
				}
				if !time.Now().Before(end) {
					break
				}
			}
			if err := c.StartAPI(t.Context()); err != nil {
				t.Fatal(err)
			}
			create(t, c, service(t, "default", test.service, "{clusterIP: "+test.addr+", ports: [{port: 80}]}"))
			start := time.Now()
			n.answers(test.service+".default.svc.cluster.local", "A", "NOERROR A "+test.addr)
			measured.note("API server %s: %v from its return to the first new answer", test.name, time.Since(start).Round(time.Millisecond))
		})
	}
}

// TestStartWithoutAPI: the node boots while the control plane is down. With a snapshot of an
// earlier run it answers from that and reports it. Without one the cluster's names are unknown, not
// absent.
func TestStartWithoutAPI(t *testing.T) {
	n, c := ownNode(t)
	n.start()
	n.answers("before.default.svc.cluster.local", "A", "NOERROR A 10.97.3.1")
	n.stop()
	fresh := newNode(t)
	fresh.credentials(c, kube.Reader())
	c.StopAll()

	n.start()
	n.answers("before.default.svc.cluster.local", "A", "NOERROR A 10.97.3.1 ede 3") // RFC 8914 section 4.4: Stale Answer
	n.answers("nosuch.default.svc.cluster.local", "A", "NXDOMAIN ede 19")           // section 4.20: Stale NXDOMAIN Answer
	n.until("the status reports a state from disk", func() bool { return !n.status().Cluster.Resolver.FromDisk.IsZero() })
	n.says("connection refused")
	fresh.start()
	fresh.answers("before.default.svc.cluster.local", "A", "SERVFAIL ede 14") // section 4.15: Not Ready
	fresh.answers("www.example.test", "A", "NOERROR A 192.0.2.80")
	fresh.says("connection refused")

	if err := c.StartAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{n, fresh} {
		n.answers("before.default.svc.cluster.local", "A", "NOERROR A 10.97.3.1")
		n.isWell()
	}
}

// TestEtcdRestored: the control plane is restored from a backup. Its resource versions are lower
// than before, newer objects no longer exist, and objects deleted since exist again.
func TestEtcdRestored(t *testing.T) {
	n, c := ownNode(t)
	backup, err := c.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.start()
	n.answers("before.default.svc.cluster.local", "A", "NOERROR A 10.97.3.1")
	remove(t, c, service(t, "default", "before", "{}"))
	create(t, c, service(t, "default", "after", "{clusterIP: 10.97.3.5, ports: [{port: 80}]}"))
	n.answers("after.default.svc.cluster.local", "A", "NOERROR A 10.97.3.5")
	n.answers("before.default.svc.cluster.local", "A", "NXDOMAIN")

	if err := c.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	n.answers("after.default.svc.cluster.local", "A", "NXDOMAIN")
	n.answers("before.default.svc.cluster.local", "A", "NOERROR A 10.97.3.1")
	measured.note("etcd restored: %v from the API server's return to the right answers", time.Since(start).Round(time.Millisecond))
	create(t, c, service(t, "default", "later", "{clusterIP: 10.97.3.6, ports: [{port: 80}]}"))
	n.answers("later.default.svc.cluster.local", "A", "NOERROR A 10.97.3.6")
}

// TestAutopathOutlivesWatches: a kubelet's certificate may list the pods of its own node, but only
// with the selector for that node (the Node authorizer, Kubernetes 1.32). A check without the
// selector was denied and disabled autopath at the first lost watch.
func TestAutopathOutlivesWatches(t *testing.T) {
	t.Parallel()
	c := newKube(t, kube.Config{})
	create(t, c, objects(t, manifestFile)...)
	n := newNode(t)
	kubeconfig, err := c.Kubeconfig(kube.Node())
	if err != nil {
		t.Fatal(err)
	}
	proxy := newMeter(t, strings.TrimPrefix(c.URL(), "https://"))
	n.write(kubeconfigPath, strings.ReplaceAll(string(kubeconfig), c.URL(), "https://"+proxy.listener.Addr().String()))
	n.start()
	autopath := func() bool {
		resolver := n.status().Cluster.Resolver
		return resolver != nil && resolver.Phase == "synced" && resolver.Autopath.On
	}
	stays := func(after string) {
		t.Helper()
		n.until("autopath after "+after, autopath)
		// The check follows within ten seconds.
		for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if !autopath() {
				t.Fatalf("after %s: %+v", after, n.status().Cluster.Resolver)
			}
		}
	}
	n.until("autopath", autopath)
	before := proxy.drop()
	n.until("another connection", func() bool { return proxy.connections() > before })
	stays("a dropped connection")
	c.KillAPI()
	if err := c.StartAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, c, service(t, "default", "later", "{clusterIP: 10.97.3.7, ports: [{port: 80}]}"))
	n.answers("later.default.svc.cluster.local", "A", "NOERROR A 10.97.3.7")
	stays("a restart of the API server")
	for range 3 {
		n.stop()
		n.start()
		stays("a restart of node-dns")
	}
}
