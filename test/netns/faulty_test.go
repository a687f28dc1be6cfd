package netns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestFaultyConfiguration: a faulty configuration froze resolv.conf, whatever happened to the node:
// it kept an address that the node no longer had, or a daemon that was dead.
func TestFaultyConfiguration(t *testing.T) {
	const before, moved = "search example.com\nnameserver " + ns1 + "\n", "10.77.0.101"
	n := newNode(t, byHand(func(l *lab.Lab) { l.WriteFile(resolvConf, before) }))
	n.await(right{Upstreams: []string{ns1}, Text: "search example.com\nnameserver " + nodeIP + "\n"})

	n.l.WriteFile("/etc/node-dns/node-dns.yaml", "clusterDomain: 7 dwarfs\n")
	n.l.Run("ip", "addr", "flush", "dev", "eth0", "scope", "global")
	n.l.Addr("eth0", moved+"/24")
	n.l.Route("default via " + router)
	want := strings.ReplaceAll(n.l.ReadFile(resolvConf), nodeIP, moved)
	n.l.Await("resolv.conf to follow the node's address", func() bool { return n.l.ReadFile(resolvConf) == want })
	if got := ask(moved, "who.test."); got != ns1 {
		t.Errorf("who.test. comes from %q", got)
	}

	n.daemon.Kill()
	if out, err := n.l.Try(n.program, "apply"); err == nil || n.l.ReadFile(resolvConf) != before {
		t.Errorf("the daemon does not answer: %v; resolv.conf:\n%s\n%s", err, n.l.ReadFile(resolvConf), out)
	}
}
