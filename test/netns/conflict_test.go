package netns

import (
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// notes returns the notes of the status.
func (n *node) notes() []string {
	n.t.Helper()
	status, err := control.FetchStatus(n.t.Context(), control.SocketPath("/"))
	if err != nil {
		n.t.Fatal(err)
	}
	return status.Notes
}

// TestStaticBesideDHCP: a nameserver that an admin adds to a connection is queried before DHCP's.
// The daemon, which is not root, and the hook report that, and how to disable DHCP's. Nameservers
// in node-dns.yaml override both.
func TestStaticBesideDHCP(t *testing.T) {
	n := newNode(t)
	n.connect("eth0", "ipv4.dns", ns2)
	n.await(right{Upstreams: []string{ns2, ns1}})
	const mixed = "eth0 (eth0): static DNS " + ns2 + " is used before DNS " + ns1 + " from the network; set ipv4.ignore-auto-dns yes to ignore the latter"
	n.l.Await("the daemon to report it", func() bool { return slices.Contains(n.notes(), mixed) })
	if plan := n.l.Run(n.program, "plan"); !strings.Contains(plan, "conflict: "+mixed+"\n") {
		t.Errorf("got the plan\n%s", plan)
	}

	n.l.WriteFile("/etc/node-dns/node-dns.yaml", "upstreams: ["+ns1+"]\n")
	const won = "upstreams /etc/node-dns/node-dns.yaml:1 wins over NetworkManager eth0 (eth0)"
	n.l.Await("the daemon to report it", func() bool { return slices.Contains(n.notes(), won+"; not used: "+ns2+" "+ns1) })
	servers := n.l.Run(lab.Binary(t, "node-dns"), "servers")
	if !strings.Contains(servers, "  upstreams /etc/node-dns/node-dns.yaml:1\nlost: . "+ns2+" "+ns1+": "+won+"\n") {
		t.Errorf("got the servers\n%s", servers)
	}
	n.l.WriteFile("/etc/node-dns/node-dns.yaml", "")

	n.l.Nmcli("connection", "modify", "eth0", "ipv4.ignore-auto-dns", "yes")
	n.l.Nmcli("connection", "up", "eth0")
	n.await(right{Upstreams: []string{ns2}, Search: []string{}})
	n.l.Await("no report to be left", func() bool {
		return !slices.ContainsFunc(n.notes(), func(note string) bool { return strings.Contains(note, "static DNS ") })
	})
}
