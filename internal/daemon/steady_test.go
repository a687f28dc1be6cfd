package daemon

import (
	"net/netip"
	"testing"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

func TestSteady(t *testing.T) {
	without := policytest.Node()
	without.Default4 = nil
	gone := netstate.State{Addrs: policytest.Node().Addrs[:1]}
	first := netstate.Addr{Addr: netip.MustParseAddr("192.0.2.10"), Interface: "eth0", Up: true}
	sole := netstate.State{Addrs: []netstate.Addr{first}}
	both := netstate.State{Addrs: []netstate.Addr{first, {Addr: netip.MustParseAddr("172.17.0.1"), Interface: "docker0", Up: true}}}
	tests := []struct {
		name        string
		before, now netstate.State
		want        string
	}{
		{"first read of the kernel's state", netstate.State{}, policytest.Node(), "192.0.2.10"},
		{"a failed read is ignored", policytest.Node(), netstate.State{}, "192.0.2.10"},
		{"default route removed, address kept", policytest.Node(), without, "192.0.2.10"},
		{"a second address appears", sole, both, "192.0.2.10"},
		{"default route and address removed", policytest.Node(), gone, "invalid IP"},
	}
	for _, test := range tests {
		if got := steady(test.before, test.now).NodeIP().String(); got != test.want {
			t.Errorf("%s: node IP %s, expected %s", test.name, got, test.want)
		}
	}
}
