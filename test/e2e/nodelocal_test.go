package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

const (
	nodeLocalAddr   = "169.254.20.10" // NodeLocal DNSCache's own address
	nodeLocalLink   = "nodelocaldns"
	nodeLocalAnswer = "192.0.2.2" // its upstream answers every A question with it
)

// gracePeriod is terminationGracePeriodSeconds of a pod.
const gracePeriod = 30 * time.Second

// nodeLocal is NodeLocal DNSCache on a proxyBed's node: node-cache with the flags and the plugins
// of its manifest. It adds and removes its addresses and iptables rules itself. Nothing restarts
// it.
type nodeLocal struct {
	*proxyBed
	dir     string
	process *lab.Process
}

func newNodeLocal(t testing.TB, b *proxyBed) *nodeLocal {
	t.Helper()
	upstream := netip.MustParseAddrPort("127.0.0.1:5355")
	b.node.serve(upstream, "*. 300 IN A "+nodeLocalAnswer)
	n := &nodeLocal{proxyBed: b, dir: t.TempDir()}
	corefile := fmt.Appendf(nil, nodeLocalCorefile, nodeLocalAddr, clusterDNS.Addr(), upstream)
	if err := os.WriteFile(n.path("Corefile"), corefile, 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// nodeLocalCorefile has the plugins of the manifest's zone for names outside the cluster.
const nodeLocalCorefile = `.:53 {
	errors
	cache 30
	reload
	loop
	bind %[1]s %[2]s
	forward . %[3]s
	prometheus :9253
	health %[1]s:8080
}
`

func (n *nodeLocal) path(name string) string { return filepath.Join(n.dir, name) }

// start starts node-cache as in a new container, which has no pidfile. The kernel of a test may
// have no dummy links. node-cache uses an existing link of its name, so there is a bridge without
// ports. As a dummy, it stays down.
func (n *nodeLocal) start() {
	n.t.Helper()
	pidfile := n.path("pid")
	if err := os.RemoveAll(pidfile); err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.node.try("ip", "link", "show", nodeLocalLink); err != nil {
		n.node.run("ip", "link", "add", nodeLocalLink, "type", "bridge")
	}
	n.process = n.node.start(nodeCache(n.t), "-localip", nodeLocalAddr+","+clusterDNS.Addr().String(),
		"-conf", n.path("Corefile"), "-upstreamsvc", "kube-dns-upstream", "-pidfile", pidfile)
}

func (n *nodeLocal) server() *lab.Process { return n.process }

// stop ends node-cache, which removes its link and then its rules.
func (n *nodeLocal) stop() {
	n.t.Helper()
	n.process.Signal(syscall.SIGTERM)
	if !lab.Poll(gracePeriod, func() bool { return !n.process.Running() }) {
		n.t.Fatalf("node-cache still runs after %v:\n%s", gracePeriod, tail(n.process.Output(), 4<<10))
	}
}

// nodeCache returns the path of node-cache.
func nodeCache(t testing.TB) string {
	t.Helper()
	path := filepath.Join(programs(t), "node-cache")
	if _, err := os.Stat(path); err != nil {
		lab.Skip(t, "scripts/test-kube intercept builds it: %v", err)
	}
	return path
}
