package netns

import (
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestAPIOfSilentAddresses: the API server's name has three addresses, of which two drop all
// packets. The daemon still reaches the third one. It never did when the first one was silent. If
// all addresses are silent, the status reports that.
func TestAPIOfSilentAddresses(t *testing.T) {
	n := bootPodNode(t, podCluster, podSite, "kubeconfig: kubeconfig\n")
	const silent = "10.88.0.61 api.test\n10.88.0.62 api.test\n"
	for _, line := range strings.Fields(strings.ReplaceAll(silent, "api.test", "")) {
		n.l.Run("ip", "route", "add", line+"/32", "via", podIP)
	}
	n.pod.Run("nft", "add table ip silent; add chain ip silent drops { type filter hook prerouting priority 0; }; add rule ip silent drops ip daddr { 10.88.0.61, 10.88.0.62 } counter drop")
	named := strings.Replace(string(n.api.Kubeconfig()), "127.0.0.1", "api.test", 1)
	n.l.WriteFile("/etc/hosts", silent+"127.0.0.1 api.test\n")
	n.l.WriteFile("/etc/node-dns/kubeconfig", named)
	began := time.Now()
	n.start()
	t.Logf("with two silent addresses of three: synced %v after the start", time.Since(began))
	if dropped := n.pod.Run("nft", "list", "chain", "ip", "silent", "drops"); strings.Contains(dropped, "packets 0 ") {
		t.Errorf("the silent addresses were not tried:\n%s", dropped)
	}

	n.l.WriteFile("/etc/hosts", silent)
	n.l.WriteFile("/etc/node-dns/kubeconfig", named+"# again\n")
	began = time.Now()
	var out string
	if !lab.Poll(20*time.Second, func() bool {
		out, _ = n.l.Try(lab.Binary(t, "node-dns"), "status") // exit code 1 if it reports a problem
		return strings.Contains(out, "10.88.0.61") && strings.Contains(out, "10.88.0.62")
	}) {
		t.Errorf("the status does not give the reason:\n%s", out)
	}
	t.Logf("without another one: the status has the reason after %v", time.Since(began))
	n.digs("what is known is answered", nil, "172.30.0.1")
}
