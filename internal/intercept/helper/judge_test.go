package helper

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/node-dns/node-dns/internal/intercept"
)

func TestWayFor(t *testing.T) {
	cluster4, cluster6 := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a")
	node4, node6 := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd01::5")
	both := intercept.Request{Nodes: []netip.Addr{node4, node6}}
	for _, test := range []struct {
		name    string
		addr    netip.Addr
		link    string
		request intercept.Request
		want    way
	}{
		{"not local", cluster4, "", both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, add: true}},
		{"on our link", cluster6, "node-dns", both, way{served: served{cluster6, intercept.Local, netip.Addr{}}, probe: cluster6}},
		{"on lo, without dummy links", cluster4, "lo", both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4}},
		{"served by IPVS", cluster4, "kube-ipvs0", both, way{served: served{cluster4, intercept.Translated, node4}, probe: node4}},
		{"served by IPVS, of IPv6", cluster6, "kube-ipvs0", both, way{served: served{cluster6, intercept.Translated, node6}, probe: node6}},
		{
			"served by IPVS, on a node without that family", cluster6, "kube-ipvs0",
			intercept.Request{Nodes: []netip.Addr{node4}},
			way{served: served{cluster6, intercept.Translated, netip.Addr{}}, why: "IPVS serves it, and node-dns answers at no other address of its family"},
		},
		{"of this host", cluster4, "eth0", both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, why: "the link eth0 of this host has it"}},
		{"of NodeLocal DNSCache", cluster4, "nodelocaldns", both, way{served: served{cluster4, intercept.Local, netip.Addr{}}, probe: cluster4, why: "the link nodelocaldns of this host has it"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := wayFor(test.addr, place{test.link}, test.request); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestSilence(t *testing.T) {
	at := netip.MustParseAddr("10.96.0.10")
	for _, test := range []struct {
		name, by string
		err      error
		want     string
	}{
		{"node-dns answers", "node-dns 0.9.0", nil, ""},
		{"nothing answers", "", os.ErrDeadlineExceeded, "node-dns does not answer at 10.96.0.10 within 150ms"},
		{"nothing listens", "", syscall.ECONNREFUSED, "node-dns does not listen on 10.96.0.10"},
		{"the network fails", "", errors.New("no route"), "cannot query 10.96.0.10: no route"},
		// A socket load balancer, such as Cilium's, sends the query to a DNS pod before any rule sees it.
		{"CoreDNS answers", "CoreDNS-1.12.1", nil, "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1"},
		{"a nameserver refuses to name itself", "", nil, "another nameserver answers at 10.96.0.10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := silence(at, test.by, test.err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
