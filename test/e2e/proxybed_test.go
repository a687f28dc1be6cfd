package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// IPv4 addresses of a proxyBed. The pods are in the cluster's pod network.
const (
	podNetwork    = "10.244.0.0/16"
	nodeAddr      = "10.244.1.1" // the pods' gateway
	clientAddr    = "10.244.1.10"
	kubeDNSPod    = "10.244.1.53"
	kubeDNSAnswer = "192.0.2.53" // kube-dns answers every A question with it
)

// clusterDNS is the address of the Service kube-dns, which pods have in their resolv.conf.
var clusterDNS = netip.MustParseAddrPort("10.96.0.10:53")

// bedAddrs are the addresses of a proxyBed. All have one family.
type bedAddrs struct {
	network, node, client string
	kubeDNS               string         // of the pod
	dns                   netip.AddrPort // of the Service kube-dns
}

var (
	bed4 = bedAddrs{podNetwork, nodeAddr, clientAddr, kubeDNSPod, clusterDNS}
	bed6 = bedAddrs{"fd00:10:244::/48", "fd00:10:244:1::1", "fd00:10:244:1::10", "fd00:10:244:1::53", netip.MustParseAddrPort("[fd00:10:96::a]:53")}
)

func (a bedAddrs) family() string {
	if a.dns.Addr().Is6() {
		return "IPv6"
	}
	return "IPv4"
}

// proxyModes are the modes of kube-proxy on Linux, except ipvs, which Kubernetes has deprecated.
var proxyModes = []string{"iptables", "nftables"}

// proxyBed is a node with two pods: a client, and kube-dns behind the Service's address. Without
// kube-proxy nothing leads to that address.
type proxyBed struct {
	t       testing.TB
	cluster *kube.Cluster
	addrs   bedAddrs
	node    *netns
	client  *netns
	kubeDNS *dnstest.Server // in the pod of the Service kube-dns
}

// newProxyBed makes the node and its pods. The cluster is one of newProxyCluster with the same
// addresses, which several beds may use in turn. The node reaches the API at the cluster's URL.
func newProxyBed(t testing.TB, c *kube.Cluster, addrs bedAddrs) *proxyBed {
	t.Helper()
	lab.NeedPrograms(t, "nft", "iptables")
	b := &proxyBed{t: t, cluster: c, addrs: addrs, node: newNetNS(t, "node"), client: newNetNS(t, "client")}
	b.node.sysctl("net.ipv4.ip_forward", "1")
	b.node.sysctl("net.ipv6.conf.all.forwarding", "1")
	pod := newNetNS(t, "kube-dns")
	b.addPod(b.client, addrs.client)
	b.addPod(pod, addrs.kubeDNS)
	b.kubeDNS = pod.serve(netip.AddrPortFrom(netip.MustParseAddr(addrs.kubeDNS), addrs.dns.Port()), "*. 300 IN A "+kubeDNSAnswer)
	b.joinAPI(strings.TrimPrefix(c.URL(), "https://"))
	return b
}

// addPod links a pod with the node, like the CNI plugin ptp: a veth pair and a route for one
// address.
func (b *proxyBed) addPod(pod *netns, addr string) {
	b.t.Helper()
	link, node := "veth-"+pod.name, b.addrs.node
	host := fmt.Sprintf("/%d", netip.MustParseAddr(addr).BitLen())
	b.node.run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pod.path())
	pod.run("ip", "link", "set", "eth0", "up")
	b.node.run("ip", "link", "set", link, "up")
	b.node.run("ip", "addr", "add", node+host, "dev", link, "nodad")
	b.node.run("ip", "route", "add", addr+host, "dev", link, "src", node)
	pod.run("ip", "addr", "add", addr+host, "dev", "eth0", "nodad")
	pod.run("ip", "route", "add", node+host, "dev", "eth0")
	pod.run("ip", "route", "add", "default", "via", node)
}

// joinAPI makes the API listen at an address of the node too.
func (b *proxyBed) joinAPI(addr string) {
	b.t.Helper()
	var listener net.Listener
	b.node.inside(func() (err error) {
		listener, err = net.Listen("tcp4", addr)
		return err
	})
	meterAt(b.t, listener, strings.TrimPrefix(b.cluster.URL(), "https://"))
}

// newProxyCluster starts a control plane with the node, and the Service kube-dns with its only
// endpoint. Without controllers, kube-controller-manager does not run.
func newProxyCluster(t testing.TB, addrs bedAddrs, controllers ...string) *kube.Cluster {
	t.Helper()
	c := newKube(t, kube.Config{Controllers: controllers})
	if len(controllers) > 0 {
		startControllersAndScheduler(t, c)
	}
	create(
		t, c,
		object(t, `
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {kubernetes.io/os: linux}}
status: {addresses: [{type: InternalIP, address: "%s"}], allocatable: {cpu: 2, memory: 4Gi, pods: 110}}
`, kube.NodeName, addrs.node),
		namespace(t, "kube-system"),
		service(t, "kube-system", "kube-dns", fmt.Sprintf(
			`{clusterIP: "%s", ipFamilies: [%s], ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}`, addrs.dns.Addr(), addrs.family())),
		kubeDNSSlice(t, addrs, addrs.kubeDNS),
	)
	return c
}

// kubeDNSSlice returns the only EndpointSlice of the Service kube-dns, with these pods.
func kubeDNSSlice(t testing.TB, addrs bedAddrs, pods ...string) *kube.Object {
	o := object(t, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-1, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: %s
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
`, addrs.family())
	endpoints := []any{}
	for _, addr := range pods {
		endpoints = append(endpoints, map[string]any{
			"addresses": []any{addr}, "conditions": map[string]any{"ready": true}, "nodeName": kube.NodeName,
		})
	}
	o.Object["endpoints"] = endpoints
	return o
}

// kubeProxy returns the rights of kube-proxy, from the ClusterRoleBinding system:node-proxier.
func kubeProxy() kube.User { return kube.User{Name: "system:kube-proxy"} }

// startProxy starts kube-proxy in the node's namespace. It returns when the client's queries to the
// Service reach kube-dns over UDP and TCP, or with the reason why they do not. The rules of
// kube-proxy remain after it ends.
func (b *proxyBed) startProxy(mode string) (*lab.Process, error) {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := b.cluster.WriteKubeconfig(dir, kubeProxy()); err != nil {
		b.t.Fatal(err)
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, proxyConfig, mode, kube.NodeName, filepath.Join(dir, kube.KubeconfigFile), b.addrs.network), 0o600); err != nil {
		b.t.Fatal(err)
	}
	p := b.node.start(filepath.Join(programs(b.t), "kube-proxy"), "--config="+config)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := b.reachesKubeDNS()
		switch {
		case err == nil:
			return p, nil
		case !p.Running():
			return nil, fmt.Errorf("kube-proxy ended: %s", tail(p.Output(), 2<<10))
		case time.Now().After(end):
			return nil, fmt.Errorf("after %v: %w; output of kube-proxy: %s", patience, err, tail(p.Output(), 2<<10))
		}
	}
}

// proxyConfig is kube-proxy's configuration. It sets no parameters of conntrack, because the
// maximum is the whole host's. All of its other defaults apply.
const proxyConfig = `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %s
hostnameOverride: %s
clientConnection: {kubeconfig: %s}
clusterCIDR: %s
detectLocalMode: ClusterCIDR
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// reachesKubeDNS queries the Service once over UDP and once over TCP. Before kube-proxy has written
// its rules, there is no answer, so the timeout is short.
func (b *proxyBed) reachesKubeDNS() error {
	const timeout = 500 * time.Millisecond
	for _, network := range []string{"udp", "tcp"} {
		addr, err := b.client.ask(network, b.addrs.dns, "www.example.test", timeout)
		if err != nil {
			return fmt.Errorf("%s: %w", network, err)
		}
		if addr.String() != kubeDNSAnswer {
			return fmt.Errorf("%s: got %s, want %s", network, addr, kubeDNSAnswer)
		}
	}
	return nil
}

// eachProxyMode runs a test with a bed for each mode of kube-proxy that the kernel supports. It
// logs why it leaves out a mode, and fails if it leaves out all of them.
func eachProxyMode(t *testing.T, test func(t *testing.T, b *proxyBed)) {
	t.Helper()
	c := newProxyCluster(t, bed4)
	tried, supported := 0, 0 // -run may exclude a mode
	for _, mode := range proxyModes {
		t.Run(mode, func(t *testing.T) {
			tried++
			b := newProxyBed(t, c, bed4)
			if _, err := b.startProxy(mode); err != nil {
				t.Logf("kube-proxy does not work in mode %s: %v", mode, err)
				return
			}
			supported++
			test(t, b)
		})
	}
	if tried > 0 && supported == 0 {
		t.Errorf("kube-proxy works in none of the modes %s", proxyModes)
	}
}

// startAnyProxy starts kube-proxy in the first mode that the kernel supports.
func (b *proxyBed) startAnyProxy() {
	b.t.Helper()
	var failed []error
	for _, mode := range proxyModes {
		_, err := b.startProxy(mode)
		if err == nil {
			return
		}
		failed = append(failed, err)
	}
	b.t.Fatalf("kube-proxy works in none of the modes %s: %v", proxyModes, errors.Join(failed...))
}

// phase runs a load while events happens, and checks how many of its queries are lost.
func (b *proxyBed) phase(name string, mayLose int, events func(l *podLoad)) {
	b.t.Helper()
	result := b.underLoad(events)
	b.t.Logf("%s: %s", name, result)
	if len(result.lost) > mayLose {
		b.t.Errorf("%s: %d queries were lost, at most %d may be", name, len(result.lost), mayLose)
	}
}

// failurePhase runs a load while node-dns fails, and then while events happens. fail returns when
// nothing may reach node-dns any more. At most the queries in flight are lost.
func (b *proxyBed) failurePhase(name string, fail func(), events func(l *podLoad)) {
	b.t.Helper()
	var from time.Duration
	result := b.underLoad(func(l *podLoad) {
		b.awaitAnswers(l, nodeDNSAnswer, interceptRate/4)
		fail()
		from = time.Since(l.began)
		events(l)
	})
	b.t.Logf("%s, until %v: %s", name, from.Round(time.Millisecond), result)
	for _, fault := range result.afterFailure(from, runtime.NumCPU()) {
		b.t.Errorf("%s: %s", name, fault)
	}
}

// underLoad lets the client query the Service while events happens.
func (b *proxyBed) underLoad(events func(l *podLoad)) podLoadResult {
	b.t.Helper()
	load := b.client.startLoad(b.addrs.dns, interceptRate)
	events(load)
	result, err := load.stop()
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// TestKubeProxy: a pod's queries to the cluster DNS Service reach kube-dns through kube-proxy, and
// none is lost under load.
func TestKubeProxy(t *testing.T) {
	const perSecond, want = 200, 400
	eachProxyMode(t, func(t *testing.T, b *proxyBed) {
		before := b.kubeDNS.Queries()
		load := b.client.startLoad(b.addrs.dns, perSecond)
		b.awaitAnswers(load, kubeDNSAnswer, want)
		result, err := load.stop()
		if err != nil {
			t.Fatal(err)
		}
		t.Log(result)
		if len(result.lost) > 0 {
			t.Error("queries were lost")
		}
		if got := b.kubeDNS.Queries() - before; got != result.sent {
			t.Errorf("kube-dns received %d queries of %d", got, result.sent)
		}
	})
}

// awaitAnswers waits until the load has received that many more answers with an address.
func (b *proxyBed) awaitAnswers(l *podLoad, addr string, more int) {
	b.t.Helper()
	a := netip.MustParseAddr(addr)
	want := l.answeredBy(a) + more
	for end := time.Now().Add(patience); l.answeredBy(a) < want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			result, err := l.stop()
			b.t.Fatalf("timed out after %v waiting for %d answers from %s: %s, %v", patience, want, addr, result, err)
		}
	}
}
