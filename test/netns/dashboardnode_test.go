package netns

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// A boardNode is a node from newNode in a cluster, with pods, and with upstream nameservers that
// can be made silent.
type boardNode struct {
	*node
	pods  *lab.Namespace
	api   *kubetest.Server
	sites [2]*dnstest.Server
}

const (
	boardNodeName = "node-7"
	boardPods     = "10.128.0.1" // the node's address for its pods
	boardPods6    = "fd00:128::1"
	shopPod       = "10.128.0.41" // known to the API
	otherPod      = "10.128.0.42" // unknown to the API
	floodPod      = "10.128.0.66"

	boardSettings = "nodeName: " + boardNodeName + "\nlisten: all\ncacheSize: 2000\nclientRateLimit: 400\n"

	// boardSite has the records of both upstream nameservers.
	boardSite = `
	*.hot.example. 15 A 192.0.2.80
	*.hot.example. 15 AAAA 2001:db8::80
	*.hot.example. 60 TXT "a text that is somewhat longer than an address: v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 include:spf.example -all"
	*.hot.example. 60 MX 10 mail.hot.example.
	*.far.example. 300 A 192.0.2.81
`
)

// boardSites are the upstream nameservers that DHCP offers.
var boardSites = [2]string{"10.77.0.61", "10.77.0.62"}

func newBoardNode(t *testing.T) *boardNode {
	t.Helper()
	n := &boardNode{api: kubetest.NewServer(t)} // it must end after the daemon, because it waits for the daemon's watches
	n.api.Apply(podCluster + `
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, clusterIPs: [None], selector: {app: db}, ports: [{name: sql, port: 5432}]}
`)
	// NetworkManager disables IPv6 on a managed device without a connection, at an unpredictable
	// time.
	pods := withFile("/etc/NetworkManager/conf.d/pods.conf", "[keyfile]\nunmanaged-devices=interface-name:bridge0\n")
	n.node = newNode(t, offering(boardSites[:]...), pods, func(s *setup) {
		s.files = append(s.files, func(l *lab.Lab) {
			l.WriteFile("/etc/node-dns/node-dns.yaml", boardSettings)
			l.WriteFile("/etc/node-dns/kubeconfig", string(n.api.Kubeconfig()))
			l.Run("install", "-d", "-o", strconv.Itoa(nobody), "/var/cache/node-dns") // like systemd's CacheDirectory=
		})
	})
	for i, addr := range boardSites {
		n.lan.Run("ip", "addr", "add", addr+"/24", "dev", "lan0")
		n.sites[i] = serveSite(t, n.lan, addr)
	}
	n.pods = n.l.Namespace("pods")
	n.l.Veth("bridge0", n.pods, "eth0")
	n.l.Addr("bridge0", boardPods+"/24", boardPods6+"/64")
	for _, addr := range []string{shopPod + "/24", otherPod + "/24", floodPod + "/24", "fd00:128::41/64"} {
		n.pods.Run("ip", "addr", "add", addr, "dev", "eth0")
	}
	n.connect("eth0")
	n.l.Await("the node to be ready", func() bool {
		status, err := control.FetchStatus(t.Context(), control.SocketPath("/"))
		return err == nil && status.Ready && status.Cluster.Resolver != nil && status.Cluster.Resolver.Phase == "synced" &&
			strings.Contains(n.l.ReadFile(resolvConf), nodeIP)
	})
	return n
}

func serveSite(t *testing.T, lan *lab.Namespace, addr string) *dnstest.Server {
	t.Helper()
	var site *dnstest.Server
	var err error
	if insideErr := lan.Inside(func() { site, err = dnstest.StartAt(netip.MustParseAddrPort(addr+":53"), boardSite) }); insideErr != nil {
		t.Fatal(insideErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(site.Close)
	return site
}

// rollOut creates this many more services in the API, each with a pod on this node.
func (n *boardNode) rollOut(services int) {
	for i := range services {
		n.api.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: s%d, namespace: shop}
spec: {clusterIP: 172.30.1.%d, clusterIPs: [172.30.1.%d], selector: {app: s}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: s%d, namespace: shop}
spec: {nodeName: `+boardNodeName+`, containers: []}
status: {phase: Running, podIPs: [{ip: 10.128.1.%d}]}
`, i, i, i, i, i))
	}
}

// restartPods restarts the only pod of a headless service repeatedly, with a new address each time,
// until stop is called. The API has the time of each restart, rounded down to the second as
// controllers do. With it the daemon measures the DNS programming latency.
func (n *boardNode) restartPods() (stop func()) {
	const pause = 1100 * time.Millisecond // two changes within a second are timed as one
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			n.api.Apply(kubetest.HeadlessSlice("shop", "db", "db-1", fmt.Sprintf("10.128.2.%d", i%200), time.Now().Truncate(time.Second)))
			select {
			case <-ended:
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}
