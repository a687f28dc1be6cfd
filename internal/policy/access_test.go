package policy

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// TestAccess sends queries to addresses of a node, and of a master with 0.0.0.0:8053 and similar.
func TestAccess(t *testing.T) {
	const master = "clusterListen: [\"0.0.0.0:8053\"]\npodCIDRs: [10.128.0.0/14]\nserviceCIDRs: [172.30.0.0/16]\nclusterClients: [192.0.2.0/24, \"2001:db8::/32\"]\n"
	tests := []struct {
		name, config  string
		local, client string
		refused       bool
	}{
		{"a pod", master, "192.0.2.10:8053", "10.130.1.2", false},
		{"a pod, IPv4-mapped", master, "192.0.2.10:8053", "::ffff:10.130.1.2", false},
		{"Service address", master, "192.0.2.10:8053", "172.30.0.9", false},
		{"another node", master, "192.0.2.10:8053", "192.0.2.77", false},
		{"IPv6", strings.ReplaceAll(master, "0.0.0.0", "[::]"), "[2001:db8::10]:8053", "2001:db8:1::1", false},
		{"this host", master, "192.0.2.10:8053", "192.0.2.10", false},
		{"loopback", master, "127.0.0.1:8053", "127.0.0.1", false},
		{"unknown client", master, "192.0.2.10:8053", "198.51.100.1", true},
		{"unknown client, IPv4-mapped", master, "192.0.2.10:8053", "::ffff:198.51.100.1", true},
		{"unknown client at loopback", master, "127.0.0.1:8053", "198.51.100.1", true},
		{"unknown client at the node IP", master, "192.0.2.10:53", "198.51.100.1", true},
		{"nearby clients at the node IP", master, "192.0.2.10:53", "192.0.2.200", false},
		{"pod at an address that is open to all", "clusterListen: [\"192.0.2.10:53\"]\n", "192.0.2.10:53", "10.130.1.2", false},
		{"unknown networks", "clusterListen: [\"0.0.0.0:8053\"]\n", "192.0.2.10:8053", "10.130.1.2", true},
		{"one address", "clusterListen: [\"192.0.2.10:8053\"]\n", "192.0.2.10:8053", "10.130.1.2", true},

		{"near: the interface's network", "", "192.0.2.10:53", "192.0.2.77", false},
		{"near: the interface's IPv6 network", "", "[2001:db8::10]:53", "2001:db8::77", false},
		{"near: an IPv6 link", "", "[2001:db8::10]:53", "fe80::77%eth0", false},
		{"near: an IPv4 link", "", "192.0.2.10:53", "169.254.7.7", false},
		{"near: a pod with a route of its own", "podCIDRs: [10.128.0.0/14]\n", "192.0.2.10:53", "203.0.113.9", false},
		{"not near: next address, without a route", "", "192.0.2.10:53", "203.0.113.10", true},
		{"not near: very wide route of a VPN", "", "192.0.2.10:53", "100.0.0.1", true},
		{"not near: the interface's network is down", "", "192.0.2.10:53", "198.18.0.7", true},
		{"unknown pod networks: private address", "", "192.0.2.10:53", "10.244.3.4", false},
		{"unknown pod networks: carrier-grade NAT", "", "192.0.2.10:53", "100.64.1.1", false},
		{"unknown pod networks: unique local", "", "[2001:db8::10]:53", "fd00:244::7", false},
		{"known pod networks: pod", "podCIDRs: [10.128.0.0/14]\n", "192.0.2.10:53", "10.131.3.4", false},
		{"known pod networks: Service", "podCIDRs: [10.128.0.0/14]\nserviceCIDRs: [172.30.0.0/16]\n", "192.0.2.10:53", "172.30.0.9", false},
		{"known pod networks: other private address", "podCIDRs: [10.128.0.0/14]\n", "192.0.2.10:53", "10.1.0.1", true},
		{"this host, no allowFrom", "", "127.0.0.53:53", "127.0.0.1", false},
		{"this host, not in allowFrom", "allowFrom: [203.0.113.0/24]\n", "192.0.2.10:53", "192.0.2.10", false},
		{"allowFrom: listed client", "allowFrom: [203.0.113.0/24, 198.51.100.7]\n", "192.0.2.10:53", "198.51.100.7", false},
		{"allowFrom: nearby client, not listed", "allowFrom: [203.0.113.0/24]\n", "192.0.2.10:53", "192.0.2.77", true},
		{"allowFrom: nearby client, local listed", "allowFrom: [local, 203.0.113.0/24]\n", "192.0.2.10:53", "192.0.2.77", false},
		{"allowFrom: empty", "allowFrom: []\n", "192.0.2.10:53", "192.0.2.77", true},
		{"everyone", "allowFrom: all\n", "192.0.2.10:53", "198.51.100.1", false},
		{"allowFrom: all, at clusterListen", "allowFrom: all\n" + master, "192.0.2.10:8053", "198.51.100.1", true},
	}
	addrs := []netstate.Addr{
		{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo", Up: true},
		{Addr: netip.MustParseAddr("192.0.2.10"), Interface: "eth0", Bits: 24, Up: true},
		{Addr: netip.MustParseAddr("2001:db8::10"), Interface: "eth0", Bits: 64, Up: true},
		{Addr: netip.MustParseAddr("198.18.0.1"), Interface: "eth1", Bits: 24},
	}
	net := netstate.State{Addrs: addrs, OnLink: []netstate.OnLink{{Network: netip.MustParsePrefix("203.0.113.9/32")}, {Network: netip.MustParsePrefix("64.0.0.0/2")}}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "node-dns.yaml")
			if err := os.WriteFile(file, []byte(test.config), 0o600); err != nil {
				t.Fatal(err)
			}
			config, err := nodeconfig.Load(nodeconfig.Paths{NodeDNS: file})
			if err != nil {
				t.Fatal(err)
			}
			a := newAccess(config, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.10:53")}, net)
			if got := a.Server.Allows(netip.MustParseAddrPort(test.local), netip.MustParseAddr(test.client)); got == test.refused {
				t.Errorf("got clients %v at %v", got, a.listen)
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
		"198.51.100.1:8053": "[198.51.100.1:8053]", // not this host's address, or not yet; status reports it
	} {
		if got := fmt.Sprint(spelledOut(netip.MustParseAddrPort(at), addrs)); got != want {
			t.Errorf("%s: got %s, want %s", at, got, want)
		}
	}
}
