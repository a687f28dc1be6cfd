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
	// asking is what systemd-resolved is told while node-dns answers.
	asking = hostdns.DropInWatermark + "\n[Resolve]\nDNS=\nDNS=" + nodeIP + "\nDomains=\nDomains=cluster.local ~. ~example.com\n"
)

// newResolvedNode is a node that has booted, whose libc asks systemd-resolved, and where node-dns is to have that ask it.
func newResolvedNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	n.WriteFile(nodeDNSFile, "resolvConf: resolved\n", 0o644)
	n.serveCluster()
	n.boot()
	n.Unmask("systemd-resolved.service")
	n.Install("systemd-resolved")
	n.reboot() // the bus did not know the user when systemd-resolved asked for its name, and NetworkManager not whose stub it is
	n.Await("systemd-resolved to have the lease", func() bool { return strings.Contains(n.uplinks(), "\nnameserver "+ns1+"\n") })
	return n
}

// awaitAsking waits until systemd-resolved asks node-dns, and libc gets names of both worlds.
func (n *node) awaitAsking() {
	n.t.Helper()
	n.Await("the drop-in", func() bool { return n.ReadFile(dropIn) == asking })
	n.Await("systemd-resolved to ask the node", func() bool { return strings.Contains(n.uplinks(), "\nnameserver "+nodeIP+"\n") })
	n.awaitApplied()
	n.wantNames("192.0.2.1", clusterIP)
	if n.stubbed() != stubLink || !strings.Contains(n.ReadFile("/run/systemd/resolve/stub-resolv.conf"), "\nsearch cluster.local example.com\n") {
		n.t.Errorf("resolv.conf leads to %q, which says\n%s", n.stubbed(), n.ReadFile("/run/systemd/resolve/stub-resolv.conf"))
	}
}

// awaitGivenBack waits until nothing of ours is left, and systemd-resolved asks the link's nameserver alone.
func (n *node) awaitGivenBack() {
	n.t.Helper()
	n.Await("the drop-in to go", func() bool { return n.ReadFile(dropIn) == "" })
	n.Await("systemd-resolved to forget the node", func() bool {
		text := n.uplinks()
		return !strings.Contains(text, nodeIP) && strings.Contains(text, "\nnameserver "+ns1+"\nsearch example.com\n")
	})
	n.wantNames("192.0.2.1", "")
	if n.stubbed() != stubLink {
		n.t.Errorf("resolv.conf leads to %q", n.stubbed())
	}
}

func (n *node) uplinks() string { return n.ReadFile("/run/systemd/resolve/resolv.conf") }

func (n *node) stubbed() string {
	target, _ := os.Readlink(n.Path(resolvConf))
	return target
}

// clusterIP is where the cluster's name is, by the nameserver that knows the cluster; clusterName is found by the search list.
const (
	clusterDNS  = "10.77.0.55"
	clusterIP   = "192.0.2.80"
	clusterName = "web.shop.svc"
)

// serveCluster starts a nameserver that knows a name of the cluster, and has node-dns forward the cluster's names there.
func (n *node) serveCluster() {
	n.t.Helper()
	n.lan.Run("ip", "addr", "add", clusterDNS+"/24", "dev", "lan0")
	n.lan.Start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file", "--log-facility=-", "--no-resolv", "--no-hosts",
		"--bind-interfaces", "--listen-address="+clusterDNS, "--local=/cluster.local/", "--address=/"+clusterName+".cluster.local/"+clusterIP)
	n.WriteFile(nodeDNSFile, n.ReadFile(nodeDNSFile)+"clusterDNS: ["+clusterDNS+"]\n", 0o644)
}

// wantNames: what libc makes of a name of the site's, and of one of the cluster's by its search list; "": it has none.
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

// lookup is what getaddrinfo(3) of the node's libc has for a name; "": nothing.
func (n *node) lookup(name string) string {
	out, err := n.Try("getent", "ahostsv4", name)
	if err != nil {
		return ""
	}
	return strings.Fields(out)[0]
}

// TestResolved: a node of systemd-resolved and NetworkManager. Its resolv.conf is the stub's all the time.
func TestResolved(t *testing.T) {
	n := newResolvedNode(t)
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitAsking()
	n.Run("systemctl", "restart", "node-dns.service")
	n.awaitAsking()
	if got := n.ask(); got != ns1 {
		t.Errorf("a pod is answered by %q", got)
	}
	if out := n.Run("origin-dns-dispatcher", "plan"); !strings.HasSuffix(out, "\nnothing to do\n") {
		t.Errorf("there is more to do:\n%s", out)
	}
	if out := n.Run("node-dns", "status"); !strings.Contains(out, "systemd-resolved asks this node: "+dropIn) {
		t.Errorf("status:\n%s", out)
	}
	n.dhcp.SetNameservers(ns2)
	n.Run("nmcli", "connection", "up", "eth0")
	n.Await("the other nameserver", func() bool { return n.ask() == ns2 })
	n.dhcp.SetNameservers(ns1)
	n.Run("nmcli", "connection", "up", "eth0")
	n.Await("the first nameserver", func() bool { return n.ask() == ns1 })
	n.awaitAsking()

	n.Run("systemctl", "restart", "systemd-resolved.service") // an admin does
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

// TestResolvedEnds: however node-dns ends, systemd-resolved does not ask it afterwards; and is never restarted to death.
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

	for range 6 { // systemd gives up a unit that is started five times in 10 s
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
