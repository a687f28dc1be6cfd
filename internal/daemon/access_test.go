package daemon

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// TestAccess asks at addresses of a master with 0.0.0.0:8053 or the like.
func TestAccess(t *testing.T) {
	const master = "clusterListen: [\"0.0.0.0:8053\"]\npodCIDRs: [10.128.0.0/14]\nserviceCIDRs: [172.30.0.0/16]\nclusterClients: [192.0.2.0/24, \"2001:db8::/32\"]\n"
	tests := []struct {
		name, config  string
		local, client string
		refused       bool
	}{
		{"a pod", master, "192.0.2.10:8053", "10.130.1.2", false},
		{"a pod, IPv4-mapped", master, "[::ffff:192.0.2.10]:8053", "::ffff:10.130.1.2", false},
		{"a service's address", master, "192.0.2.10:8053", "172.30.0.9", false},
		{"another node", master, "192.0.2.10:8053", "192.0.2.77", false},
		{"IPv6", strings.ReplaceAll(master, "0.0.0.0", "[::]"), "[2001:db8::10]:8053", "2001:db8:1::1", false},
		{"this host", master, "192.0.2.10:8053", "192.0.2.10", false},
		{"loopback", master, "127.0.0.1:8053", "127.0.0.1", false},
		{"a stranger", master, "192.0.2.10:8053", "198.51.100.1", true},
		{"a stranger, IPv4-mapped", master, "192.0.2.10:8053", "::ffff:198.51.100.1", true},
		{"a stranger at loopback", master, "127.0.0.1:8053", "198.51.100.1", true},
		{"a stranger at the node IP", master, "192.0.2.10:53", "198.51.100.1", false},
		{"a stranger at an address that is open anyway", "clusterListen: [\"192.0.2.10:53\"]\n", "192.0.2.10:53", "198.51.100.1", false},
		{"no networks are known", "clusterListen: [\"0.0.0.0:8053\"]\n", "192.0.2.10:8053", "10.130.1.2", true},
		{"one address", "clusterListen: [\"192.0.2.10:8053\"]\n", "192.0.2.10:8053", "10.130.1.2", true},
		{"not used", "podCIDRs: [10.128.0.0/14]\n", "192.0.2.10:53", "198.51.100.1", false},
	}
	addrs := []netstate.Addr{
		{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo", Up: true},
		{Addr: netip.MustParseAddr("192.0.2.10"), Interface: "eth0", Up: true},
		{Addr: netip.MustParseAddr("2001:db8::10"), Interface: "eth0", Up: true},
	}
	isLocal := netstate.State{Addrs: addrs}.IsLocal
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config, err := nodeconfig.ParseNodeDNS("node-dns.yaml", strings.NewReader(test.config))
			if err != nil {
				t.Fatal(err)
			}
			a := newAccess(config, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.10:53")}, addrs)
			if got := a.allows(netip.MustParseAddrPort(test.local), netip.MustParseAddr(test.client), isLocal); got == test.refused {
				t.Errorf("allowed: %v, at %v", got, a.listen)
			}
		})
	}
}

func TestSpelledOut(t *testing.T) {
	addrs := []netstate.Addr{
		{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo", Up: true},
		{Addr: netip.MustParseAddr("192.0.2.10"), Interface: "eth0", Up: true},
		{Addr: netip.MustParseAddr("192.0.2.11"), Interface: "eth1"},
		{Addr: netip.MustParseAddr("2001:db8::10"), Interface: "eth0", Up: true},
		{Addr: netip.MustParseAddr("2001:db8::11"), Interface: "eth0", Up: true, Tentative: true},
	}
	for at, want := range map[string]string{
		"0.0.0.0:8053":      "[127.0.0.1:8053 192.0.2.10:8053]",
		"[::]:8053":         "[127.0.0.1:8053 192.0.2.10:8053 [2001:db8::10]:8053]",
		"198.51.100.1:8053": "[198.51.100.1:8053]", // not this host's, or not yet: status says so
	} {
		if got := fmt.Sprint(spelledOut(netip.MustParseAddrPort(at), addrs)); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}
