package nspawn

import (
	"strings"
	"testing"
)

// TestSocketUnit: systemd holds the port from boot on, and the daemon serves from that socket.
func TestSocketUnit(t *testing.T) {
	n := newNode(t)
	const unit = "node-dns@" + nodeIP + ".socket"
	n.Enable("node-dns.service", unit)
	n.boot()
	n.awaitServing()
	held := n.Run("ss", "-lntupH", "src", nodeIP+":53")
	for line := range strings.Lines(held) {
		if !strings.Contains(line, `"systemd",pid=1,`) || !strings.Contains(line, `"node-dns",pid=`+n.mainPID()+",") {
			t.Errorf("node-dns does not serve from systemd's socket: %s", line)
		}
	}
	if strings.Count(held, "\n") != 2 {
		t.Errorf("want one socket each for UDP and TCP, got:\n%s", held)
	}
	if got := n.Run("node-dns", "status"); strings.Contains(got, "!") {
		t.Errorf("node-dns reports problems:\n%s", got)
	}

	n.Run("systemctl", "stop", unit, "node-dns.service")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after the stop resolv.conf is\n%s", got)
	}
	if got := n.Run("ss", "-lntuH", "src", nodeIP+":53"); got != "" {
		t.Errorf("after the stop there are listeners:\n%s", got)
	}

	n.Run("systemctl", "start", unit)
	n.Await("a pod to be answered by a daemon that its query starts", func() bool { return n.ask() == ns1 })
	n.awaitServing()
}
