package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// nodeDNSAnswer is what node-dns's upstream answers to every A question of the load.
const nodeDNSAnswer = "192.0.2.1"

// interceptRate is the load of the client, in queries a second. Each has a socket of its own.
const interceptRate = 2000

// interceptBed is a proxyBed with node-dns and its helper on the node. They run as processes,
// without systemd: nothing keeps the daemon's sockets while it does not run, and the test restarts
// them.
type interceptBed struct {
	*proxyBed
	n              *node
	daemon, helper *lab.Process
}

func newInterceptBed(t testing.TB, b *proxyBed) *interceptBed {
	t.Helper()
	upstream := netip.MustParseAddrPort("127.0.0.1:5354")
	b.node.serve(upstream, "*. 300 IN A "+nodeDNSAnswer)
	i := &interceptBed{proxyBed: b, n: newNode(t, `listen: ["`+b.addrs.node+`"]`, "intercept: clusterDNS", `podCIDRs: ["`+b.addrs.network+`"]`)}
	i.n.args = []string{"--root", i.n.root, "serve", "--upstream", upstream.String()}
	i.n.credentials(b.cluster, kube.User{Name: "system:kube-controller-manager"})
	for _, file := range []string{intercept.RequestFile(i.n.root), intercept.StateFile(i.n.root)} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func (i *interceptBed) startDaemon() {
	i.t.Helper()
	i.daemon = i.node.start(append([]string{i.n.program()}, i.n.args...)...)
}

// startHelper starts the helper once the daemon requests it, as node-dns-intercept.path does.
func (i *interceptBed) startHelper() {
	i.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(intercept.RequestFile(i.n.root)); err == nil {
			break
		}
		if time.Now().After(end) {
			i.t.Fatalf("no request for interception after %v:\n%s", patience, tail(i.daemon.Output(), 4<<10))
		}
	}
	i.helper = i.node.start(filepath.Join(os.Getenv(scratchEnv), "node-dns-intercept"), "run", "--root", i.n.root)
}

// awaitReleased waits until the helper has removed its rules.
func (i *interceptBed) awaitReleased() {
	i.t.Helper()
	if !lab.Poll(patience, func() bool {
		s, err := intercept.ReadState(intercept.StateFile(i.n.root))
		return err == nil && !s.Intercepts(func(intercept.Address) bool { return true })
	}) {
		i.t.Fatalf("the rules are still there after %v:\n%s", patience, i.helper.Output())
	}
}

// TestIntercept: with the real kube-proxy, a pod's queries come to node-dns while it answers, and
// reach kube-dns otherwise. Nothing is lost when node-dns starts, restarts or stops. When processes
// are killed, at most the queries in flight are lost.
func TestIntercept(t *testing.T) {
	eachProxyMode(t, checkIntercept)
	t.Run("IPv6", func(t *testing.T) {
		b := newProxyBed(t, newProxyCluster(t, bed6), bed6)
		b.startAnyProxy()
		checkIntercept(t, b)
	})
}

func checkIntercept(t *testing.T, b *proxyBed) {
	const some = interceptRate / 4
	i := newInterceptBed(t, b)
	// Connections through kube-proxy that later queries from the same ports could clash with.
	i.phase("before", 0, func(l *podLoad) { i.awaitAnswers(l, kubeDNSAnswer, interceptRate) })
	i.phase("start", 0, func(l *podLoad) {
		i.startDaemon()
		i.startHelper()
		i.awaitAnswers(l, nodeDNSAnswer, some)
	})
	i.phase("restart of the daemon", 0, func(l *podLoad) {
		i.daemon.Stop()
		i.awaitAnswers(l, kubeDNSAnswer, some)
		i.startDaemon()
		i.awaitAnswers(l, nodeDNSAnswer, some)
	})
	i.phase("SIGKILL of the helper", 0, func(l *podLoad) {
		i.helper.Kill()
		i.awaitAnswers(l, kubeDNSAnswer, some)
		i.startHelper()
		i.awaitAnswers(l, nodeDNSAnswer, some)
	})
	i.failurePhase("SIGKILL of the daemon", i.daemon.Kill, func(l *podLoad) {
		i.awaitAnswers(l, kubeDNSAnswer, some)
		i.startDaemon()
		i.awaitAnswers(l, nodeDNSAnswer, some)
	})
	i.failurePhase("SIGKILL of both", func() {
		i.helper.Signal(syscall.SIGKILL)
		i.daemon.Kill()
		i.helper.Kill()
	}, func(l *podLoad) {
		i.awaitAnswers(l, kubeDNSAnswer, some)
		i.startDaemon()
		i.startHelper()
		i.awaitAnswers(l, nodeDNSAnswer, some)
	})
	i.failurePhase("a daemon that hangs", func() {
		i.daemon.Signal(syscall.SIGSTOP)
		i.awaitReleased()
	}, func(l *podLoad) {
		i.awaitAnswers(l, kubeDNSAnswer, some)
		i.daemon.Signal(syscall.SIGCONT)
		i.awaitAnswers(l, nodeDNSAnswer, some)
	})
	i.phase("removal", 0, func(l *podLoad) {
		i.daemon.Stop()
		i.awaitAnswers(l, kubeDNSAnswer, some)
		for end := time.Now().Add(patience); i.helper.Running(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the helper still runs after %v:\n%s", patience, i.helper.Output())
			}
		}
		i.awaitAnswers(l, kubeDNSAnswer, some)
	})
}

// TestInterceptServiceAsUpstream: node-dns.yaml names the cluster's DNS Service as the upstream,
// while the queries to it come to node-dns. node-dns queries the pods of the Service instead:
// queries to the Service would come back. Until a pod is ready, the upstream is left out. A pod
// that was ready is queried while no other one is.
func TestInterceptServiceAsUpstream(t *testing.T) {
	b := newProxyBed(t, newProxyCluster(t, bed4), bed4)
	b.startAnyProxy()
	i := newInterceptBed(t, b)
	i.n.args = []string{"--root", i.n.root, "serve"}
	i.n.write("/etc/node-dns/node-dns.yaml", strings.Join([]string{
		"nodeName: " + kube.NodeName, "listen: [" + nodeAddr + "]", "intercept: clusterDNS", "podCIDRs: [" + podNetwork + "]",
		"upstreams: [" + clusterDNS.Addr().String() + "]",
	}, "\n")+"\n")
	update(t, i.cluster, kubeDNSSlice(t, bed4)) // no pod is ready
	i.startDaemon()
	i.n.process = i.daemon
	i.startHelper()
	i.n.until("queries come here", func() bool {
		addr, err := i.client.ask("udp", clusterDNS, kubernetesName, podLoadTimeout)
		return err == nil && addr.String() == "10.96.0.1"
	})
	says := func(lists func(s control.Status) []string, texts ...string) bool {
		all := strings.Join(lists(i.n.status()), "\n")
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(all, text) })
	}
	ask := func(name string) (netip.Addr, error) { return i.client.ask("udp", clusterDNS, name, podLoadTimeout) }
	checkServers := func(want ...string) {
		t.Helper()
		var all []string
		for _, route := range i.n.status().Routes {
			for _, server := range route.Servers {
				all = append(all, server.Address)
			}
		}
		if !slices.Equal(all, want) {
			t.Errorf("the nameservers are %q, want %q", all, want)
		}
	}
	checkAnswers := func(when string) {
		t.Helper()
		checkServers(kubeDNSPod)
		for k := range 100 {
			name := fmt.Sprintf("%s%d.example.test.", when, k)
			if got, err := ask(name); err != nil || got.String() != kubeDNSAnswer {
				t.Errorf("%s: got %v, %v, want %s", name, got, err, kubeDNSAnswer)
			}
		}
	}
	i.n.until("the upstream is left out", func() bool {
		return says(func(s control.Status) []string { return s.Problems }, "ignoring "+clusterDNS.Addr().String(), "it is this node and would loop")
	})
	checkServers()
	for k := range 100 {
		name := fmt.Sprintf("without%d.example.test.", k)
		if got, err := ask(name); err == nil {
			t.Errorf("%s: got %v without a pod", name, got)
		}
		if n := i.kubeDNS.QueriesFor(name, dns.TypeA); n > 0 {
			t.Errorf("kube-dns got %s %d times", name, n)
		}
	}

	update(t, i.cluster, kubeDNSSlice(t, bed4, kubeDNSPod))
	i.n.until("the pod is queried", func() bool {
		return says(func(s control.Status) []string { return s.Notes }, "is the cluster's DNS Service, queries to which are intercepted: its pods are queried instead")
	})
	checkAnswers("with")

	endpoints := i.n.status().Cluster.Resolver.Endpoints
	update(t, i.cluster, kubeDNSSlice(t, bed4)) // it may answer all the same
	i.n.until("the pod is not ready", func() bool { return i.n.status().Cluster.Resolver.Endpoints < endpoints })
	checkAnswers("kept")
}
