package helper

import (
	"net/netip"
	"testing"

	"github.com/node-dns/node-dns/internal/intercept"
)

func TestWayFor(t *testing.T) {
	cluster4, cluster6 := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a")
	node4, node6 := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd01::5")
	both := intercept.Request{Nodes: []netip.Addr{node4, node6}}
	cache4 := netip.MustParseAddr("169.254.20.10")
	left := intercept.Request{Addrs: []netip.Addr{cache4, cluster4}, Nodes: []netip.Addr{node4}, Translate: true}
	for _, test := range []struct {
		name    string
		addr    netip.Addr
		at      place
		request intercept.Request
		want    way
	}{
		{"not local", cluster4, place{}, both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, hold: true, add: true}},
		{"on our link", cluster6, place{link: "node-dns", ours: true}, both, way{served: served{cluster6, intercept.Local, netip.Addr{}}, probe: cluster6, hold: true}},
		{"on lo, without dummy links", cluster4, place{link: "lo", ours: true}, both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, hold: true}},
		{"served by IPVS", cluster4, place{link: "kube-ipvs0"}, both, way{served: served{cluster4, intercept.Translated, node4}, probe: node4}},
		{"served by IPVS, of IPv6", cluster6, place{link: "kube-ipvs0"}, both, way{served: served{cluster6, intercept.Translated, node6}, probe: node6}},
		{
			"served by IPVS, on a node without that family", cluster6,
			place{link: "kube-ipvs0"},
			intercept.Request{Nodes: []netip.Addr{node4}},
			way{served: served{cluster6, intercept.Translated, netip.Addr{}}, why: "IPVS serves it, and node-dns answers at no other address of its family"},
		},
		{"of this host", cluster4, place{link: "eth0"}, both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, why: "the link eth0 of this host has it"}},
		{"of this host and on our link", cluster4, place{link: "eth0", ours: true}, both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, why: "the link eth0 of this host has it"}},
		{"of a gateway", cluster4, place{neighbor: "eth0"}, both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, why: "another host has it, on the network of the link eth0"}},
		{"of another host, and on our link", cluster4, place{link: "node-dns", ours: true, neighbor: "eth0"}, both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, why: "another host has it, on the network of the link eth0"}},
		{"of NodeLocal DNSCache", cluster4, place{link: "nodelocaldns"}, both, way{served: served{cluster4, intercept.Translated, node4}, probe: node4, hold: true, add: true, standby: true}},
		{"of NodeLocal DNSCache and on our link", cluster6, place{link: "nodelocaldns", ours: true}, both, way{served: served{cluster6, intercept.Translated, node6}, probe: node6, hold: true, standby: true}},
		{
			"of NodeLocal DNSCache, on a node without that family", cluster6,
			place{link: "nodelocaldns"},
			intercept.Request{Nodes: []netip.Addr{node4}},
			way{served: served{cluster6, intercept.Translated, netip.Addr{}}, why: "the link nodelocaldns of this host has it, and node-dns answers at no other address of its family"},
		},
		{"NodeLocal DNSCache has left", cache4, place{link: "node-dns", ours: true}, left, way{served: served{cache4, intercept.Translated, node4}, probe: node4, hold: true}},
		{"the Service's address, which NodeLocal DNSCache also used", cluster4, place{}, left, way{served: served{cluster4, intercept.Translated, node4}, probe: node4, hold: true, add: true}},
		{"IPVS, and NodeLocal DNSCache has left", cluster4, place{link: "kube-ipvs0"}, left, way{served: served{cluster4, intercept.Translated, node4}, probe: node4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := wayFor(test.addr, test.at, test.request); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
