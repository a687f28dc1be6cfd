package netns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestOpportunisticTLS: what DHCP has named, a dnsmasq, is asked at the same address over TLS while an unbound is there, and in the
// clear when that is gone, by the daemon with the rights that it has on a node.
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
		t.Error("the first question did not go in the clear")
	}
	for range 20 {
		if got := ask(nodeIP, "who.test."); got != lab.OverTLS {
			t.Errorf("answered %q", got)
		}
	}
	if now := strings.Count(n.nameservers[ns1].Output(), "who.test"); now != inTheClear {
		t.Errorf("%d questions in the clear", now-inTheClear)
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
