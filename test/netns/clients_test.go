package netns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestStrangers: the clients allowed by default if the networks of the pods are known: a pod, a
// neighbor, and a pod with its own route once that exists. A client behind a router is only allowed
// after allowFrom permits it.
func TestStrangers(t *testing.T) {
	n := newPodNode(t, "", "www.example.com. 300 IN A 192.0.2.80\n", "podCIDRs: [10.128.0.0/14]\n")
	stranger := n.l.Namespace("stranger")
	n.l.Veth("out0", stranger, "eth0")
	n.l.Addr("out0", "192.0.2.1/24")
	stranger.Run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
	stranger.Run("ip", "addr", "add", "203.0.113.9/32", "dev", "lo")
	stranger.Run("ip", "route", "add", bridgeIP+"/32", "via", "192.0.2.1")
	n.l.Run("ip", "route", "add", "203.0.113.0/24", "via", "192.0.2.2")

	asks := func(machine *lab.Namespace, from string) string {
		return machine.Run("dig", "-b", from, "+tries=1", "+time=5", "+noall", "+comments", "+answer", "@"+bridgeIP, "www.example.com.")
	}
	answered := func(text string) bool { return strings.Contains(text, "192.0.2.80") }
	refused := func(text string) bool {
		return strings.Contains(text, "status: REFUSED") && strings.Contains(text, "EDE: 18 (Prohibited)")
	}
	if text := asks(n.pod, podIP); !answered(text) {
		t.Errorf("a pod:\n%s", text)
	}
	n.l.Await("the neighbor's network to be allowed", func() bool { return answered(asks(stranger, "192.0.2.2")) })
	if text := asks(stranger, "203.0.113.9"); !refused(text) {
		t.Errorf("a client behind a router:\n%s", text)
	}
	status, err := control.FetchStatus(t.Context(), control.SocketPath("/"))
	if err != nil || status.Queries.Limits.Strangers == 0 || !strings.Contains(strings.Join(status.Clients.Networks, " "), "192.0.2.0/24") {
		t.Errorf("%v: %+v, %+v", err, status.Clients, status.Queries)
	}
	n.l.Run("ip", "route", "add", "203.0.113.9/32", "dev", "out0", "scope", "link")
	stranger.Run("ip", "route", "replace", bridgeIP+"/32", "via", "192.0.2.1")
	n.l.Await("the separate route to count", func() bool { return answered(asks(stranger, "203.0.113.9")) })
	n.l.Run("ip", "route", "del", "203.0.113.9/32", "dev", "out0")
	n.l.Await("the removed route to be ignored", func() bool { return refused(asks(stranger, "203.0.113.9")) })
	n.l.WriteFile("/etc/node-dns/node-dns.yaml", clusterSettings+"upstreams: [\""+n.site.Addr().String()+"\"]\npodCIDRs: [10.128.0.0/14]\nallowFrom: all\n")
	n.l.Await("allowFrom: all to take effect", func() bool { return answered(asks(stranger, "203.0.113.9")) })
}
