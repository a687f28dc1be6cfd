package nspawn

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/hostdns"
)

const (
	stubLink    = "../run/systemd/resolve/stub-resolv.conf"
	dropIn      = "/run/systemd/resolved.conf.d/90-node-dns.conf"
	nodeDNSFile = "/etc/node-dns/node-dns.yaml"
	// asking is the drop-in for systemd-resolved while node-dns answers.
	asking = hostdns.DropInWatermark + "\n[Resolve]\nDNS=\nDNS=" + nodeIP + "\nDomains=\nDomains=cluster.local ~. ~example.com\n"
)

// newResolvedNode is a booted node whose libc uses systemd-resolved, which node-dns will point at
// itself.
func newResolvedNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	n.WriteFile(nodeDNSFile, "resolvConf: resolved\n", 0o644)
	n.serveCluster()
	n.boot()
	n.Unmask("systemd-resolved.service")
	n.Install("systemd-resolved")
	n.reboot() // the bus did not know the user when systemd-resolved requested its name, and NetworkManager did not know the owner of the stub
	n.Await("systemd-resolved to have the lease", func() bool { return strings.Contains(n.uplinks(), "\nnameserver "+ns1+"\n") })
	return n
}

// awaitAsking waits until systemd-resolved queries node-dns, and libc resolves both the site's and
// the cluster's names.
func (n *node) awaitAsking() {
	n.t.Helper()
	n.Await("the drop-in", func() bool { return n.ReadFile(dropIn) == asking })
	n.Await("systemd-resolved to ask the node", func() bool { return strings.Contains(n.uplinks(), "\nnameserver "+nodeIP+"\n") })
	n.awaitApplied()
	n.wantNames("192.0.2.1", clusterIP)
	if n.stubbed() != stubLink || !strings.Contains(n.ReadFile("/run/systemd/resolve/stub-resolv.conf"), "\nsearch cluster.local example.com\n") {
		n.t.Errorf("resolv.conf links to %q with the content\n%s", n.stubbed(), n.ReadFile("/run/systemd/resolve/stub-resolv.conf"))
	}
}

// awaitGivenBack waits until nothing of ours is left, and systemd-resolved queries only the link's
// nameserver.
func (n *node) awaitGivenBack() {
	n.t.Helper()
	n.Await("the drop-in to go", func() bool { return n.ReadFile(dropIn) == "" })
	n.Await("systemd-resolved to forget the node", func() bool {
		text := n.uplinks()
		return !strings.Contains(text, nodeIP) && strings.Contains(text, "\nnameserver "+ns1+"\nsearch example.com\n")
	})
	n.wantNames("192.0.2.1", "")
	if n.stubbed() != stubLink {
		n.t.Errorf("resolv.conf links to %q", n.stubbed())
	}
}

func (n *node) uplinks() string { return n.ReadFile("/run/systemd/resolve/resolv.conf") }

func (n *node) stubbed() string {
	target, _ := os.Readlink(n.Path(resolvConf))
	return target
}

// clusterIP is the address of the cluster's name at the cluster's nameserver. clusterName needs the
// search list.
const (
	clusterDNS  = "10.77.0.55"
	clusterIP   = "192.0.2.80"
	clusterName = "web.shop.svc"
)

// serveCluster starts a nameserver with a name of the cluster, and makes node-dns forward the
// cluster's names to it.
func (n *node) serveCluster() {
	n.t.Helper()
	n.lan.Run("ip", "addr", "add", clusterDNS+"/24", "dev", "lan0")
	n.lan.Start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--log-facility=-", "--no-resolv", "--no-hosts",
		"--bind-interfaces", "--listen-address="+clusterDNS, "--local=/cluster.local/", "--address=/"+clusterName+".cluster.local/"+clusterIP)
	n.WriteFile(nodeDNSFile, n.ReadFile(nodeDNSFile)+"clusterDNS: ["+clusterDNS+"]\n", 0o644)
}

// wantNames checks libc's results for one of the site's names, and for one of the cluster's through
// the search list; "" means none.
func (n *node) wantNames(site, cluster string) {
	n.t.Helper()
	for name, want := range map[string]string{"www.up.example": site, clusterName: cluster} {
		var got string
		n.l.Await(fmt.Sprintf("libc to resolve %s to %q", name, want), func() bool {
			got = n.lookup(name)
			return got == want
		})
	}
}

// lookup returns the result of getaddrinfo(3) in the node's libc, or "".
func (n *node) lookup(name string) string {
	out, err := n.Try("getent", "ahostsv4", name)
	if err != nil {
		return ""
	}
	return strings.Fields(out)[0]
}

// TestResolved: on a node with systemd-resolved and NetworkManager, resolv.conf always stays the
// stub's.
func TestResolved(t *testing.T) {
	n := newResolvedNode(t)
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitAsking()
	n.Run("systemctl", "restart", "node-dns.service")
	n.awaitAsking()
	if got := n.ask(); got != ns1 {
		t.Errorf("a pod got an answer from %q", got)
	}
	if out := n.Run("origin-dns-dispatcher", "plan"); !strings.HasSuffix(out, "\nnothing to do\n") {
		t.Errorf("the plan is not empty:\n%s", out)
	}
	if out := n.Run("node-dns", "status"); !strings.Contains(out, "systemd-resolved forwards to this node: "+dropIn) {
		t.Errorf("status:\n%s", out)
	}
	n.dhcp.SetNameservers(ns2)
	n.Run("nmcli", "connection", "up", "eth0")
	n.Await("the other nameserver", func() bool { return n.ask() == ns2 })
	n.dhcp.SetNameservers(ns1)
	n.Run("nmcli", "connection", "up", "eth0")
	n.Await("the first nameserver", func() bool { return n.ask() == ns1 })
	n.awaitAsking()

	n.Run("systemctl", "restart", "systemd-resolved.service") // by an admin
	n.awaitAsking()
	n.reboot()
	n.awaitAsking()
	n.Run("systemctl", "stop", "node-dns.service")
	n.awaitGivenBack()
	n.Run("systemctl", "start", "node-dns.service")
	n.awaitAsking()
	n.Crash()
	n.boot()
	n.awaitAsking()
	n.Run("systemctl", "disable", "--now", "node-dns.service")
	n.awaitGivenBack()
}

// TestResolvedEnds: however node-dns ends, systemd-resolved does not query it afterwards, and is
// never restarted too often.
func TestResolvedEnds(t *testing.T) {
	n := newResolvedNode(t)
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitAsking()
	pid := n.mainPID()
	n.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
	n.Await("another process", func() bool { return n.mainPID() != pid && n.mainPID() != "0" })
	n.awaitAsking()

	n.Run("mv", "/usr/sbin/node-dns", "/usr/sbin/node-dns.good")
	n.Run("systemctl", "kill", "--signal=KILL", "node-dns.service")
	n.awaitGivenBack()
	n.Run("mv", "/usr/sbin/node-dns.good", "/usr/sbin/node-dns")
	n.awaitAsking()

	for range 6 { // systemd gives up on a unit after five starts within 10 s
		n.Run("systemctl", "stop", "node-dns.service")
		n.Run("systemctl", "start", "node-dns.service")
		n.Await("the drop-in", func() bool { return n.ReadFile(dropIn) == asking })
	}
	n.awaitAsking()
	n.WriteFile(nodeDNSFile, strings.Replace(n.ReadFile(nodeDNSFile), "resolved", "file", 1), 0o644)
	n.awaitServing()
	n.Await("the drop-in to go", func() bool { return n.ReadFile(dropIn) == "" })
	n.wantNames("192.0.2.1", clusterIP)
	n.WriteFile(nodeDNSFile, strings.Replace(n.ReadFile(nodeDNSFile), "file", "auto", 1), 0o644)
	n.awaitAsking()
	n.WriteFile(nodeDNSFile, strings.Replace(n.ReadFile(nodeDNSFile), "auto", "none", 1), 0o644)
	n.awaitGivenBack()
	n.Run("systemctl", "stop", "node-dns.service")
	if text := n.Journal("-t", "origin-dns-dispatcher", "-p", "err"); strings.Contains(text, "origin-dns-dispatcher") {
		t.Errorf("the hook had errors:\n%s", text)
	}
}
