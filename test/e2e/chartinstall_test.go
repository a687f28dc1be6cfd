package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

const chartDir = product + "/charts/node-dns"

// helm is the program helm, with all rights at the cluster.
type helm struct {
	t          testing.TB
	kubeconfig string
	home       string
}

func newHelm(t testing.TB, c *kube.Cluster) helm {
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

// chartBed is a proxyBed with a kubelet for the pods of the chart.
type chartBed struct {
	*proxyBed
	helm helm
	k    *kubelet
}

// Answers of the node's nameserver, and of another one that a changed configuration names.
const (
	siteAddr    = "192.0.2.153"
	otherAddr   = "192.0.2.154"
	otherAnswer = "192.0.2.2"
)

// corefile configures CoreDNS, which pods query before the chart is installed. The node's
// nameserver is that of its resolv.conf. Only CoreDNS knows the names of file.test, and
// web.corp.test.
const corefile = `.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa
    hosts {
        192.0.2.77 printer.site.test
        fallthrough
    }
    rewrite name web.corp.test web.default.svc.cluster.local
    forward . /etc/resolv.conf
}
stub.test:53 {
    forward . ` + otherAddr + `
}
file.test:53 {
    file /etc/coredns/file.db
}
`

// newChartBed starts the kubelet. It runs the client as a pod with the address clientAddr.
func newChartBed(b *proxyBed) *chartBed {
	b.t.Helper()
	lab.NeedPrograms(b.t, "containerd", "crun", "ctr", "dpkg-query", "go", "make", "mount", "unshare", "/usr/lib/cni/ptp")
	for addr, answer := range map[string]string{siteAddr: nodeDNSAnswer, otherAddr: otherAnswer} {
		b.node.run("ip", "addr", "add", addr+"/32", "dev", "lo")
		b.node.serve(netip.AddrPortFrom(netip.MustParseAddr(addr), 53), "*. 300 IN A "+answer)
	}
	// Pods use the Service of the API. kube-proxy leads from there to the endpoint.
	for _, api := range []string{net.JoinHostPort(kube.ServiceAddr, "443"), b.cluster.Endpoint()} {
		b.node.run("ip", "addr", "add", netip.MustParseAddrPort(api).Addr().String()+"/32", "dev", "lo")
		b.joinAPI(api)
	}
	b.node.run("ip", "link", "delete", "veth-client")
	client := object(b.t, `
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec: {containers: [{name: client, image: 'localhost/node-dns:pause', imagePullPolicy: Never}]}
`)
	create(b.t, b.cluster, client, configMap(b.t, "coredns", "Corefile", corefile))
	k := startKubelet(b.t, b.cluster, b.node, "nameserver "+siteAddr+"\n")
	b.client = k.netOf("default")
	return &chartBed{b, newHelm(b.t, b.cluster), k}
}

// release runs helm install or helm upgrade with these values.
func (b *chartBed) release(command, values string) {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(values), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.helm.run(command, "node-dns", chartDir, "--values="+path)
}

// awaitPods waits until exactly these pods, by their images, are there and ready.
func (b *chartBed) awaitPods(want ...string) {
	b.t.Helper()
	var pods []corev1.Pod
	if !lab.Poll(patience, func() bool {
		pods = b.k.list("kube-system")
		return slices.EqualFunc(pods, want, func(pod corev1.Pod, image string) bool {
			return pod.Spec.Containers[0].Image == image && isReady(pod)
		})
	}) {
		b.t.Fatalf("after %v the pods are %+v, want %q, all ready", patience, pods, want)
	}
}

// checkNames checks how node-dns resolves names for the client's pod, over UDP and TCP. Names of
// the cluster come from the API, and autopath answers the first name of the pod's search list with
// the address of the last one. The configuration of CoreDNS stays in effect, and names that only
// CoreDNS knows come from its pod.
func (b *chartBed) checkNames() {
	b.t.Helper()
	for name, want := range map[string]string{
		kubernetesName: "10.96.0.1",
		"www.example.test.default.svc.cluster.local": nodeDNSAnswer,
		"www.example.test":                           nodeDNSAnswer,
		"www.stub.test":                              otherAnswer,
		"printer.site.test":                          "192.0.2.77",
		"www.file.test":                              kubeDNSAnswer,
		"web.corp.test":                              kubeDNSAnswer,
	} {
		for _, network := range []string{"udp", "tcp"} {
			var got netip.Addr
			var err error
			if !lab.Poll(patience, func() bool {
				got, err = b.client.ask(network, clusterDNS, name, podLoadTimeout)
				return err == nil && got.String() == want
			}) {
				b.t.Errorf("%s over %s: got %v, %v, want %s", name, network, got, err, want)
			}
		}
	}
}

// checkTroubles checks that no container of the present pods ended but those that the test killed,
// and that none has logged a problem so far.
func (b *chartBed) checkTroubles(killed int) {
	b.t.Helper()
	if restarts, lines := b.k.restarts(), b.k.troubles(); restarts != killed || len(lines) > 0 {
		b.t.Errorf("%d containers ended, or failed their liveness probe, and %d were killed; the logs have %q", restarts, killed, lines)
	}
}

// awaitRestarts waits until containers run again after that many restarts, and node-dns answers.
func (b *chartBed) awaitRestarts(l *podLoad, want int) {
	b.t.Helper()
	if !lab.Poll(patience, func() bool { return b.k.restarts() == want }) {
		b.t.Fatalf("the containers were not started again; want %d restarts", want)
	}
	b.awaitAnswers(l, nodeDNSAnswer, interceptRate/4)
}

// TestChartInstall: `helm install` moves the queries of pods to node-dns, and `helm uninstall`
// moves them back. No query is lost in between, nor while the configuration changes or the pod is
// replaced. If containers are killed, at most the queries in flight are lost.
//
// Helm, the programs of Kubernetes, and containerd are the real ones: see kubelet.
func TestChartInstall(t *testing.T) {
	const some = interceptRate / 4
	lab.NeedPrograms(t, "nft")
	c := newProxyCluster(t, bed4, "daemonset-controller", "garbage-collector-controller", "root-ca-certificate-publisher-controller")
	b := newChartBed(newProxyBed(t, c, bed4))
	b.startAnyProxy()
	values := fmt.Sprintf("config: {listen: [%s], podCIDRs: [%s]}\nimage: {repository: test, tag: old}\n", nodeAddr, podNetwork)
	upgraded := strings.Replace(values, "old", "new", 1)

	b.phase("before", 0, func(l *podLoad) { b.awaitAnswers(l, kubeDNSAnswer, interceptRate) })
	b.phase("helm install", 0, func(l *podLoad) {
		b.release("install", values)
		b.awaitAnswers(l, nodeDNSAnswer, some)
		b.awaitPods("test:old")
	})
	b.checkNames()
	b.checkTroubles(0)
	b.phase("helm upgrade to another image", 0, func(l *podLoad) {
		b.release("upgrade", upgraded)
		b.awaitPods("test:new")
		b.awaitAnswers(l, nodeDNSAnswer, some)
	})
	b.failurePhase("SIGKILL of the daemon", func() { b.k.kill("node-dns") }, func(l *podLoad) { b.awaitRestarts(l, 1) })
	b.phase("SIGKILL of the helper", 0, func(l *podLoad) {
		b.k.kill("intercept")
		b.awaitRestarts(l, 2)
	})
	b.failurePhase("SIGKILL of both", func() { b.k.kill("intercept", "node-dns") }, func(l *podLoad) { b.awaitRestarts(l, 4) })
	pods := b.k.podNames()
	b.phase("helm upgrade to another configuration", 0, func(l *podLoad) {
		b.release("upgrade", strings.Replace(upgraded, "{listen", "{routes: [{domain: load.test, servers: ["+otherAddr+"]}], listen", 1))
		b.awaitAnswers(l, otherAnswer, some)
	})
	if now := b.k.podNames(); !slices.Equal(now, pods) {
		t.Errorf("the configuration replaced the pods %q by %q", pods, now)
	}
	b.checkTroubles(4)
	b.phase("helm uninstall", 0, func(l *podLoad) {
		b.helm.run("uninstall", "node-dns")
		b.awaitPods()
		b.awaitAnswers(l, kubeDNSAnswer, interceptRate)
	})
	b.checkTroubles(0)
	if tables := b.node.run("nft", "list", "tables"); strings.Contains(tables, "node-dns") {
		t.Errorf("tables are left:\n%s", tables)
	}
	if addrs := b.node.run("ip", "-o", "addr"); strings.Contains(addrs, clusterDNS.Addr().String()) {
		t.Errorf("an address is left:\n%s", addrs)
	}
}
