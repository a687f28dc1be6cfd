package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// nodeDNSAnswer is what node-dns's upstream answers to every A question of the load.
const nodeDNSAnswer = "192.0.2.1"

// interceptRate is the load of the client, in queries a second. Each has a socket of its own.
const interceptRate = 2000

// interceptBed is a proxyBed with node-dns and its helper on the node. They run as processes, without
// systemd: nothing keeps the daemon's sockets while it does not run, and the test restarts them.
type interceptBed struct {
	*proxyBed
	n              *node
	daemon, helper *lab.Process
}

func newInterceptBed(t testing.TB, b *proxyBed) *interceptBed {
	t.Helper()
	upstream := netip.MustParseAddrPort("127.0.0.1:5354")
	b.node.serve(upstream, "*. 300 IN A "+nodeDNSAnswer)
	i := &interceptBed{proxyBed: b, n: newNode(t, "listen: ["+nodeAddr+"]", "intercept: clusterDNS", "podCIDRs: ["+podNetwork+"]")}
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
	const some = interceptRate / 4
	eachProxyMode(t, func(t *testing.T, b *proxyBed) {
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
	})
}
