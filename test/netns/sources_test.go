package netns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/lab"
)

// TestWhoSetIt: "NetworkManager eth0 (eth0)" was the source of every route, whichever connection had named its servers. servers, their
// history, the status, and the hook's plan name the right one.
func TestWhoSetIt(t *testing.T) {
	n := newNode(t)
	n.addSecondLAN()
	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}})
	n.l.Nmcli("connection", "add", "type", "ethernet", "ifname", "eth1", "con-name", "corpvpn", "autoconnect", "no",
		"ipv4.method", "manual", "ipv4.addresses", ip2+"/24", "ipv4.never-default", "yes", "ipv4.dns", nsLAN2, "ipv4.dns-search", "~corp.test")
	n.l.Nmcli("connection", "up", "corpvpn")
	n.await(right{Upstreams: []string{ns1}, Routes: []string{"corp.test/" + nsLAN2}})
	const lan, vpn, global = "NetworkManager eth0 (eth0)", "NetworkManager eth1 (corpvpn)", "NetworkManager global-dns (NetworkManager.conf)"
	n.wantSources(map[string]string{".": lan, "corp.test.": vpn})
	if plan := n.l.Run(n.program, "plan"); !strings.Contains(plan, "route:     corp.test. from "+vpn+"\n") {
		t.Errorf("the plan does not name the VPN's connection:\n%s", plan)
	}

	n.l.Nmcli("connection", "modify", "corpvpn", "ipv4.dns-search", "~.", "ipv4.dns-priority", "-50")
	n.l.Nmcli("connection", "up", "corpvpn")
	n.await(right{Upstreams: []string{nsLAN2}, AnySearch: true})
	n.wantSources(map[string]string{".": vpn})

	n.l.WriteFile("/etc/NetworkManager/conf.d/90-global.conf", "[global-dns]\nsearches=example.com\n[global-dns-domain-*]\nservers="+ns2+"\n")
	n.l.Nmcli("general", "reload", "conf")
	n.await(right{Upstreams: []string{ns2}, AnySearch: true})
	n.wantSources(map[string]string{".": global})
}

// wantSources waits until servers names these sources, one for each domain, and looks for them in the history and in the status.
func (n *node) wantSources(want map[string]string) {
	n.t.Helper()
	program := lab.Binary(n.t, "node-dns")
	var out string
	n.l.Await("servers to name "+want["."], func() bool {
		out, _ = n.l.Try(program, "servers")
		found := 0
		for line := range strings.Lines(out) {
			domain, _, _ := strings.Cut(line, " ")
			if source := want[domain]; source != "" && strings.HasSuffix(line, "  "+source+"\n") {
				found++
			}
		}
		return found == len(want)
	})
	history := n.l.Run(program, "servers", "--history")
	status, _ := n.l.Try(program, "status", "-o", "json") // exit code 1: a server is down
	for _, source := range want {
		if !strings.Contains(history, "   from "+source+"\n") {
			n.t.Errorf("the history does not name %s:\n%s", source, history)
		}
		if !strings.Contains(status, `"source": "`+source+`"`) {
			n.t.Errorf("the status does not name %s:\n%s", source, status)
		}
	}
}
