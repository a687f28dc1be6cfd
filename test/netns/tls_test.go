package netns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestOpportunisticTLS: the nameserver from DHCP, a dnsmasq, is queried over TLS at the same
// address while an unbound is running there, and unencrypted afterwards. The daemon has the
// privileges that it has on a node.
func TestOpportunisticTLS(t *testing.T) {
	lab.Need(t, "unbound", "openssl")
	n := newNode(t, withFile("/etc/node-dns/node-dns.yaml", "dnsOverTLS: opportunistic\n"))
	secure, _ := n.lan.StartTLS(t.TempDir(), ns1, "nobody.invalid")

	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}, Answers: lab.OverTLS})
	node := lab.Binary(t, "node-dns")
	if out := n.l.Run(node, "servers"); !strings.Contains(out, "tls (opportunistic)") {
		t.Errorf("servers:\n%s", out)
	}
	inTheClear := strings.Count(n.nameservers[ns1].Output(), "who.test")
	if inTheClear == 0 {
		t.Error("the first query was not in the clear")
	}
	for range 20 {
		if got := ask(nodeIP, "who.test."); got != lab.OverTLS {
			t.Errorf("answered %q", got)
		}
	}
	if now := strings.Count(n.nameservers[ns1].Output(), "who.test"); now != inTheClear {
		t.Errorf("%d queries in the clear", now-inTheClear)
	}

	secure.Kill()
	for range 20 {
		if got := ask(nodeIP, "who.test."); got != ns1 {
			t.Errorf("answered %q", got)
		}
	}
	if out := n.l.Run(node, "servers"); !strings.Contains(out, "udp") {
		t.Errorf("servers:\n%s", out)
	}
}
