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

// closedNode is a node of OpenShift 3, whose node-config.yaml is for root alone, and a site's nameserver that tells all that it is asked.
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

// writeConfig writes node-config.yaml, as ansible does: another file in its place, 0600.
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

// domain is the cluster domain that the daemon says it has; "" while it does not know, or does not run.
func (n closedNode) domain() string {
	status, err := control.FetchStatus(n.t.Context(), control.SocketPath("/"))
	if err != nil {
		return ""
	}
	return status.Cluster.Domain
}

// awaitDomain waits until all of the node is about this cluster domain, and asks for a name of it, which the site's nameserver must
// never see.
func (n closedNode) awaitDomain(domain string) {
	n.t.Helper()
	n.l.Await("the node to know "+domain, func() bool {
		return n.domain() == domain+"." &&
			strings.Contains(n.l.ReadFile(resolvConf), "search "+domain+" example.com\n") &&
			strings.Contains(n.l.ReadFile(resolvConf), "nameserver "+nodeIP+"\n")
	})
	if got := ask(nodeIP, "who.test."); got == "" || strings.HasPrefix(got, "(") {
		n.t.Errorf("the site's name is answered by %s", got)
	}
	if got := ask(nodeIP, "web.shop.svc."+domain+"."); got != "(SERVFAIL)" {
		n.t.Errorf("a cluster name is answered by %s", got)
	}
	if !strings.Contains(n.site.Output(), "query[TXT] who.test ") {
		n.t.Errorf("the site's nameserver does not tell what it is asked:\n%s", n.site.Output())
	}
	if strings.Contains(n.site.Output(), "svc."+domain) {
		n.t.Errorf("the site's nameserver was asked for names of the cluster:\n%s", n.site.Output())
	}
}

// The daemon may not read node-config.yaml: it had the default for its cluster domain, and asked the site for the cluster's names.
func TestConfigForRootAlone(t *testing.T) {
	n := newClosedNode(t, "corp.test")
	before := n.l.ReadFile(resolvConf)
	n.daemon = startDaemon(t, n.l)
	n.l.Await("the daemon to ask for what it may not read", func() bool {
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
		t.Errorf("the site's nameserver was asked for names of the cluster:\n%s", n.site.Output())
	}
	status, err = control.FetchStatus(t.Context(), control.SocketPath("/"))
	if err != nil || len(status.Problems) > 0 || !strings.Contains(strings.Join(status.Notes, "\n"), nodeConfigFile+" may not be read here") ||
		!strings.Contains(status.Cluster.Source, "dnsDomain "+nodeConfigFile+":3") {
		t.Errorf("status: from %q, notes %q, problems %q, %v", status.Cluster.Source, status.Notes, status.Problems, err)
	}

	n.writeConfig("other.test")
	n.awaitDomain("other.test")

	// Where nothing can be seen of the file, the daemon has the hook look again when it starts.
	n.daemon.Stop()
	if err := os.Chmod("/etc/origin/node", 0o700); err != nil {
		t.Fatal(err)
	}
	n.writeConfig("third.test")
	n.daemon = startDaemon(t, n.l)
	n.awaitDomain("third.test")
}

// The admin's word is enough, though nobody reads node-config.yaml for the daemon.
func TestAdminSaysClusterDomain(t *testing.T) {
	n := newClosedNode(t, "corp.test")
	n.l.WriteFile("/etc/node-dns/node-dns.yaml", "clusterDomain: corp.test\n")
	n.daemon = startDaemon(t, n.l)
	n.l.Await("the daemon to answer", func() bool { return ask(nodeIP, "who.test.") == "10.77.0.60" })
	if got := ask(nodeIP, "who.corp.test."); got != "(SERVFAIL)" {
		t.Errorf("a cluster name is answered by %s", got)
	}
	if strings.Contains(n.site.Output(), "corp.test") {
		t.Errorf("the site's nameserver was asked for names of the cluster:\n%s", n.site.Output())
	}
}
