package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

const chartDir = product + "/charts/node-dns"

// helm is the program helm, with all rights at the cluster.
type helm struct {
	t          *testing.T
	kubeconfig string
	home       string
}

func newHelm(t *testing.T, c *kube.Cluster) helm {
	t.Helper()
	dir := t.TempDir()
	if err := c.WriteKubeconfig(dir, kube.Admin()); err != nil {
		t.Fatal(err)
	}
	return helm{t, filepath.Join(dir, kube.KubeconfigFile), t.TempDir()}
}

// run runs a command of helm in the namespace kube-system, and waits as --wait does.
func (h helm) run(argv ...string) {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(programs(h.t), "helm"), append(argv, "--namespace=kube-system", "--wait", "--timeout="+patience.String())...)
	cmd.Env = []string{"HOME=" + h.home, "KUBECONFIG=" + h.kubeconfig, "PATH=" + lab.Path}
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("helm %s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// TestChartInstall: `helm install` moves the queries of pods to node-dns, and `helm uninstall` moves
// them back. No query is lost in between, nor while the pod is replaced.
//
// Helm, the API server, the controllers and kube-proxy are the real ones, and crun runs the image.
// The test plays the kubelet and the scheduler: see kubelet.
func TestChartInstall(t *testing.T) {
	const some = interceptRate / 4
	lab.NeedPrograms(t, "crun", "unshare", "nsenter", "nft")
	c := newProxyCluster(t, "daemonset-controller", "garbage-collector-controller")
	b := newProxyBed(t, c)
	b.startAnyProxy()

	// The node's nameserver, which the daemon forwards to.
	upstream := netip.MustParseAddrPort("192.0.2.153:53")
	b.node.run("ip", "addr", "add", upstream.Addr().String()+"/32", "dev", "lo")
	b.node.serve(upstream, "*. 300 IN A "+nodeDNSAnswer)
	resolvConf := filepath.Join(t.TempDir(), "resolv.conf")
	values := filepath.Join(t.TempDir(), "values.yaml")
	for name, text := range map[string]string{
		resolvConf: "nameserver " + upstream.Addr().String() + "\n",
		values:     fmt.Sprintf("image: {repository: test, tag: old}\nconfig: {listen: [%s], podCIDRs: [%s]}\n", nodeAddr, podNetwork),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root := buildImage(t)
	k := startKubelet(t, c, b.node, "kube-system", resolvConf, map[string]string{"test:old": root, "test:new": root})
	untilPods := func(want ...string) {
		t.Helper()
		var images []string
		all := 0
		if !lab.Poll(patience, func() bool {
			var err error
			images, all, err = k.readyPods(t.Context())
			return err == nil && all == len(want) && slices.Equal(images, want)
		}) {
			t.Fatalf("%d pods after %v, those with the images %q are ready; want %q", all, patience, images, want)
		}
	}
	h := newHelm(t, c)

	b.phase("before", 0, func(l *podLoad) { b.awaitAnswers(l, kubeDNSAnswer, interceptRate) })
	b.phase("helm install", 0, func(l *podLoad) {
		h.run("install", "node-dns", chartDir, "--values="+values)
		b.awaitAnswers(l, nodeDNSAnswer, some)
		untilPods("test:old")
	})
	b.phase("helm upgrade to another image", 0, func(l *podLoad) {
		h.run("upgrade", "node-dns", chartDir, "--values="+values, "--set=image.tag=new")
		untilPods("test:new")
		b.awaitAnswers(l, nodeDNSAnswer, some)
	})
	b.phase("helm uninstall", 0, func(l *podLoad) {
		h.run("uninstall", "node-dns")
		untilPods()
		b.awaitAnswers(l, kubeDNSAnswer, interceptRate)
	})
	if restarts, lines := k.troubles(); restarts > 0 || len(lines) > 0 {
		t.Errorf("%d containers ended, or failed their liveness probe; their logs have %q", restarts, lines)
	}
	if tables := b.node.run("nft", "list", "tables"); strings.Contains(tables, "node-dns") {
		t.Errorf("tables are left:\n%s", tables)
	}
	if addrs := b.node.run("ip", "-o", "addr"); strings.Contains(addrs, clusterDNS.Addr().String()) {
		t.Errorf("an address is left:\n%s", addrs)
	}
}
