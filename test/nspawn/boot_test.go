package nspawn

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// order makes a unit start After or Before another one at boot.
func (n *node) order(unit, directive, other string) {
	n.t.Helper()
	n.WriteFile("/etc/systemd/system/"+unit+".d/order.conf", "[Unit]\n"+directive+"="+other+"\n", 0o644)
}

// TestBootOrders: node-dns works in either boot order.
func TestBootOrders(t *testing.T) {
	for _, test := range []struct{ name, directive string }{
		{"NetworkManager first", "After"},
		{"node-dns first", "Before"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t)
			n.Enable("node-dns.service")
			n.order("node-dns.service", test.directive, "NetworkManager.service")
			n.boot()
			n.awaitServing()
		})
	}
}

// TestNetworkManagerLater: NetworkManager starts long after everything else, and restarts.
func TestNetworkManagerLater(t *testing.T) {
	n := newNode(t)
	n.Enable("node-dns.service")
	n.l.Run("systemctl", "--quiet", "--root="+n.Path("/"), "disable", "NetworkManager.service")
	n.boot()
	if out, err := n.Try("node-dns", "wait", "--timeout=200ms"); err == nil || !strings.Contains(out, "node-dns is not ready: ") {
		t.Errorf("node-dns is ready without an address: %v\n%s", err, out)
	}
	n.Run("systemctl", "start", "NetworkManager.service")
	n.Run("node-dns", "wait", "--for=ready", "--timeout=60s")
	n.awaitServing()
	n.Run("systemctl", "restart", "NetworkManager.service")
	n.awaitServing()
}

// TestRenewal: a lease with other nameservers needs no restart.
func TestRenewal(t *testing.T) {
	n := newServingNode(t)
	pid := n.mainPID()
	n.dhcp.SetNameservers(ns2)
	n.Run("nmcli", "device", "reapply", "eth0")
	n.Run("nmcli", "connection", "up", "eth0")
	n.Await("a pod to be answered by the other nameserver", func() bool { return n.ask() == ns2 })
	n.awaitPointed()
	if got := n.mainPID(); got != pid {
		t.Errorf("got process %[2]s, want %[1]s", pid, got)
	}
	n.Run("systemctl", "stop", "node-dns.service")
	if got, want := n.ReadFile(resolvConf), strings.Replace(original, ns1, ns2, 1); got != want {
		t.Errorf("after the stop resolv.conf is\n%s", got)
	}
}

// TestNodeConfigLater: during its bootstrap a node resolves the site's names. When the cluster's
// file appears, node-dns reads it, although only root may.
func TestNodeConfigLater(t *testing.T) {
	n := newServingNode(t)
	pid := n.mainPID()
	n.Run("mkdir", "--parents", "--mode=0700", "/etc/origin/node")
	n.WriteFile("/etc/origin/node/node-config.yaml", "kind: NodeConfig\napiVersion: v1\ndnsIP: "+nodeIP+"\ndnsDomain: shop.test\n", 0o600)
	n.Await("the cluster's domain in resolv.conf", func() bool { return strings.Contains(n.ReadFile(resolvConf), "search shop.test example.com\n") })
	n.Await("the daemon to know it", func() bool { return strings.Contains(n.status(), "shop.test.") })
	n.awaitServing()
	if got := n.mainPID(); got != pid {
		t.Errorf("got process %[2]s, want %[1]s", pid, got)
	}
}

// status returns the output of node-dns status, with or without problems.
func (n *node) status() string {
	out, _ := n.Try("node-dns", "status")
	return out
}

// apiAddr is the Kubernetes API's address on the LAN.
const apiAddr = "10.77.0.70:8080"

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "http://` + apiAddr + `"}}]
contexts: [{name: test, context: {cluster: test}}]
current-context: test
`

// startAPI serves a Kubernetes API with one Service on the LAN.
func (n *node) startAPI() {
	n.t.Helper()
	n.l.Veth("api0", n.lan, "api1")
	n.lan.Run("ip", "link", "set", "api1", "master", "lan0")
	n.l.Addr("api0", "10.77.0.70/24")
	api := kubetest.New()
	api.Apply(kubetest.Shop("172.30.0.80"))
	listener, err := net.Listen("tcp", apiAddr)
	if err != nil {
		n.t.Fatal(err)
	}
	server := &http.Server{Handler: api}
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	n.t.Cleanup(func() {
		server.Close()
		<-ended
	})
}

// TestKubeconfigLater: once a kubeconfig appears, the node answers the cluster's names itself.
func TestKubeconfigLater(t *testing.T) {
	n := newServingNode(t)
	n.startAPI()
	pid := n.mainPID()
	n.WriteFile("/etc/node-dns/kubeconfig", kubeconfig, 0o644)
	n.Await("the Service's address", func() bool {
		out, err := n.pods.Try("dig", "+short", "+tries=1", "+timeout=1", "@"+nodeIP, "web.shop.svc.cluster.local")
		return err == nil && out == "172.30.0.80\n"
	})
	n.awaitServing()
	if got := n.mainPID(); got != pid {
		t.Errorf("got process %[2]s, want %[1]s", pid, got)
	}
}
