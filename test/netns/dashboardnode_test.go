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

// A boardNode is a node as newNode makes it, of a cluster, with pods, and with upstream nameservers that can be told to be silent.
type boardNode struct {
	*node
	pods  *lab.Namespace
	api   *kubetest.Server
	sites [2]*dnstest.Server
}

const (
	boardNodeName = "node-7"
	boardPods     = "10.128.0.1" // the node's address towards its pods
	boardPods6    = "fd00:128::1"
	shopPod       = "10.128.0.41" // which the API has
	otherPod      = "10.128.0.42" // which it has not
	floodPod      = "10.128.0.66"

	boardSettings = "nodeName: " + boardNodeName + "\nlisten: all\ncacheSize: 2000\nclientRateLimit: 400\n"

	// boardSite are the records of both upstream nameservers.
	boardSite = `
	*.hot.example. 15 A 192.0.2.80
	*.hot.example. 15 AAAA 2001:db8::80
	*.hot.example. 60 TXT "a text that is somewhat longer than an address: v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 include:spf.example -all"
	*.hot.example. 60 MX 10 mail.hot.example.
	*.far.example. 300 A 192.0.2.81
`
)

// boardSites are the upstream nameservers, which DHCP offers.
var boardSites = [2]string{"10.77.0.61", "10.77.0.62"}

func newBoardNode(t *testing.T) *boardNode {
	t.Helper()
	n := &boardNode{api: kubetest.NewServer(t)} // it is to end after the daemon, whose watches it would wait for
	n.api.Apply(podCluster + `
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, clusterIPs: [None], selector: {app: db}, ports: [{name: sql, port: 5432}]}
`)
	// NetworkManager disables IPv6 on a device that it manages and has no connection for, at whatever moment it sees the device.
	pods := withFile("/etc/NetworkManager/conf.d/pods.conf", "[keyfile]\nunmanaged-devices=interface-name:bridge0\n")
	n.node = newNode(t, offering(boardSites[:]...), pods, func(s *setup) {
		s.files = append(s.files, func(l *lab.Lab) {
			l.WriteFile("/etc/node-dns/node-dns.yaml", boardSettings)
			l.WriteFile("/etc/node-dns/kubeconfig", string(n.api.Kubeconfig()))
			l.Run("install", "-d", "-o", strconv.Itoa(nobody), "/var/cache/node-dns") // as systemd does by CacheDirectory=
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
	n.l.Await("the node to be as it should", func() bool {
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

// rollOut has the API tell of so many services in all, beside the first ones, each with a pod on this node.
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

// restartPods has the one pod of a headless service start anew, with another address, again and again until stop is called: the API tells
// when it did, rounded down to the second as controllers do, by which the daemon knows how long it took until names were answered by it.
func (n *boardNode) restartPods() (stop func()) {
	const pause = 1100 * time.Millisecond // what changes twice in a second is timed once
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
