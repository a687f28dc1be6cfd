package nspawn

import "testing"

// TestLife: installing changes nothing; enable --now does; what stop undoes is undone to the byte.
func TestLife(t *testing.T) {
	n := newLeasedNode(t)
	n.Run("systemctl", "enable", "--now", "node-dns.service")
	n.awaitServing()
	n.Run("systemctl", "stop", "node-dns.service")
	if got := n.ReadFile(resolvConf); got != original {
		t.Errorf("after stop resolv.conf is\n%s", got)
	}
}
