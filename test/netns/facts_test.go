package netns

import (
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/control"
)

const (
	nodeConfigFile = "/etc/origin/node/node-config.yaml"
	factsFile      = "/var/lib/node-dns/node-config.json"
)

// closedNode is a node of OpenShift 3 with a node-config.yaml for root only, and a site's
// nameserver that logs its queries.
type closedNode struct {
	*node
	site interface{ Output() string }
}

func newClosedNode(t *testing.T, dnsDomain string) closedNode {
	t.Helper()
	const site = "10.77.0.60"
	n := closedNode{node: newNode(t, offering(site), bare())}
	n.lan.Run("ip", "addr", "add", site+"/24", "dev", "lan0")
	n.site = n.lan.Nameserver(site)
	n.writeConfig(dnsDomain)
	n.connect("eth0")
	return n
}

// writeConfig replaces node-config.yaml by another file of mode 0600, like ansible.
func (n closedNode) writeConfig(dnsDomain string) {
	n.t.Helper()
	next := nodeConfigFile + ".new"
	n.l.WriteFile(next, "apiVersion: v1\nkind: NodeConfig\ndnsDomain: "+dnsDomain+"\n")
	if err := os.Chmod(next, 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(next, nodeConfigFile); err != nil {
		n.t.Fatal(err)
	}
}

// domain returns the daemon's cluster domain, or "" if it does not know it or does not run.
func (n closedNode) domain() string {
	status, err := control.FetchStatus(n.t.Context(), control.SocketPath("/"))
	if err != nil {
		return ""
	}
	return status.Cluster.Domain
}

// awaitDomain waits until the whole node uses this cluster domain, and checks that its names never
// reach the site's nameserver.
func (n closedNode) awaitDomain(domain string) {
	n.t.Helper()
	n.l.Await("the node to know "+domain, func() bool {
		return n.domain() == domain+"." &&
			strings.Contains(n.l.ReadFile(resolvConf), "search "+domain+" example.com\n") &&
			strings.Contains(n.l.ReadFile(resolvConf), "nameserver "+nodeIP+"\n")
	})
	if got := ask(nodeIP, "who.test."); got == "" || strings.HasPrefix(got, "(") {
		n.t.Errorf("the answer for the site's name is %s", got)
	}
	if got := ask(nodeIP, "web.shop.svc."+domain+"."); got != "(SERVFAIL)" {
		n.t.Errorf("the answer for a cluster name is %s", got)
	}
	if !strings.Contains(n.site.Output(), "query[TXT] who.test ") {
		n.t.Errorf("the site's nameserver does not log its queries:\n%s", n.site.Output())
	}
	if strings.Contains(n.site.Output(), "svc."+domain) {
		n.t.Errorf("the site's nameserver received cluster names:\n%s", n.site.Output())
	}
}

// TestConfigForRootAlone: the daemon may not read node-config.yaml. It used to fall back to the
// default cluster domain and sent the cluster's names to the site.
func TestConfigForRootAlone(t *testing.T) {
	n := newClosedNode(t, "corp.test")
	before := n.l.ReadFile(resolvConf)
	n.daemon = startDaemon(t, n.l)
	n.l.Await("the daemon to request the file that it may not read", func() bool {
		return strings.Contains(n.l.ReadFile(requestFile), factsFile)
	})
	if got := ask(nodeIP, "who.corp.test."); !strings.Contains(got, "refused") {
		t.Errorf("without its cluster domain the daemon answers %s", got)
	}
	status, err := control.FetchStatus(t.Context(), control.SocketPath("/"))
	if problems := strings.Join(status.Problems, "\n"); err != nil || status.Ready || !strings.Contains(problems, `run "origin-dns-dispatcher apply" as root`) {
		t.Errorf("status: ready %v, problems %q, %v", status.Ready, status.Problems, err)
	}
	if got := n.l.ReadFile(resolvConf); got != before {
		t.Errorf("resolv.conf was changed:\n%s", got)
	}

	n.unit.start(n.node)
	n.awaitDomain("corp.test")
	if strings.Contains(n.site.Output(), "corp.test") {
		t.Errorf("the site's nameserver received cluster names:\n%s", n.site.Output())
	}
	status, err = control.FetchStatus(t.Context(), control.SocketPath("/"))
	if err != nil || len(status.Problems) > 0 || !strings.Contains(strings.Join(status.Notes, "\n"), "no permission to read "+nodeConfigFile) ||
		!strings.Contains(status.Cluster.Source, "dnsDomain "+nodeConfigFile+":3") {
		t.Errorf("status: from %q, notes %q, problems %q, %v", status.Cluster.Source, status.Notes, status.Problems, err)
	}

	n.writeConfig("other.test")
	n.awaitDomain("other.test")

	// If the file is not visible to the daemon, it makes the hook look again at its start.
	n.daemon.Stop()
	if err := os.Chmod("/etc/origin/node", 0o700); err != nil {
		t.Fatal(err)
	}
	n.writeConfig("third.test")
	n.daemon = startDaemon(t, n.l)
	n.awaitDomain("third.test")
}

// TestAdminSaysClusterDomain: the domain in node-dns.yaml is sufficient, even if nobody reads
// node-config.yaml for the daemon.
func TestAdminSaysClusterDomain(t *testing.T) {
	n := newClosedNode(t, "corp.test")
	n.l.WriteFile("/etc/node-dns/node-dns.yaml", "clusterDomain: corp.test\n")
	n.daemon = startDaemon(t, n.l)
	n.l.Await("the daemon to answer", func() bool { return ask(nodeIP, "who.test.") == "10.77.0.60" })
	if got := ask(nodeIP, "who.corp.test."); got != "(SERVFAIL)" {
		t.Errorf("the answer for a cluster name is %s", got)
	}
	if strings.Contains(n.site.Output(), "corp.test") {
		t.Errorf("the site's nameserver received cluster names:\n%s", n.site.Output())
	}
}
