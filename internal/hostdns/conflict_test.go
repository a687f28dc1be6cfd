package hostdns

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// byHand is dnsConfig with the static servers set in the connection.
func byHand(iface, static, automatic string) nm.DNSConfig {
	c := dnsConfig(iface, static+" "+automatic, "example.com")
	c.Static = servers(static)
	return c
}

// withAdmin sets upstreams in node-dns.yaml and node-config.yaml.
func withAdmin(upstreams, dnsNameservers string) option {
	return withConfig(func(c *nodeconfig.Config) {
		c.Upstreams, c.DNSNameservers = servers(upstreams), servers(dnsNameservers)
		c.Sources = map[string]nodeconfig.Source{
			"upstreams": {File: "/etc/node-dns/node-dns.yaml", Line: 3}, "dnsNameservers": {File: "/etc/origin/node/node-config.yaml", Line: 7},
		}
	})
}

// TestConflicts: if an admin's servers conflict with DHCP's, the message says which ones won and
// how to remove the others.
func TestConflicts(t *testing.T) {
	const first = "eth0 (System eth0): static DNS 192.0.2.53 is used before DNS "
	const last = " from the network; set "
	const yaml = "upstreams /etc/node-dns/node-dns.yaml:3 wins over "
	tests := []struct {
		name string
		host State
		want []string
	}{
		{name: "nothing by hand", host: host(withNetworkManager(dnsConfig("eth0", sys, "")))},
		{name: "all by hand", host: host(withNetworkManager(byHand("eth0", sys, "")))},
		{
			name: "added to DHCP's", host: host(withNetworkManager(byHand("eth0", "192.0.2.53", sys))),
			want: []string{first + sys + last + "ipv4.ignore-auto-dns yes to ignore the latter"},
		},
		{
			name: "added to both families'", host: host(withNetworkManager(byHand("eth0", "192.0.2.53", "10.0.0.2"), dnsConfig("eth0", "2001:db8::53", ""))),
			want: []string{first + "10.0.0.2 2001:db8::53" + last + "ipv4.ignore-auto-dns yes and ipv6.ignore-auto-dns yes to ignore the latter"},
		},
		{name: "the added server is this node, as with dnsmasq", host: host(withNetworkManager(byHand("eth0", nodeIP, sys)))},
		{name: "DHCP names this node alone", host: host(withNetworkManager(byHand("eth0", "192.0.2.53", nodeIP)))},
		{name: "on an interface that is not queried", host: host(withNetworkManager(dnsConfig("eth0", sys, ""), byHand("eth1", "192.0.2.53", "10.9.0.1")))},
		{
			name: "node-dns.yaml", host: host(withAdmin("192.0.2.53", ""), withNetworkManager(dnsConfig("eth0", sys, ""))),
			want: []string{yaml + "NetworkManager eth0 (System eth0); not used: " + sys},
		},
		{name: "node-dns.yaml with the same servers", host: host(withAdmin(sys, ""), withNetworkManager(dnsConfig("eth0", sys, "")))},
		{
			name: "node-config.yaml", host: host(withAdmin("", "192.0.2.53"), withNetworkManager(dnsConfig("eth0", sys, ""))),
			want: []string{"dnsNameservers /etc/origin/node/node-config.yaml:7 wins over NetworkManager eth0 (System eth0); not used: " + sys},
		},
		{name: "node-config.yaml, which names this node: it gives way", host: host(withAdmin("", nodeIP), withNetworkManager(dnsConfig("eth0", sys, "")))},
		{
			name: "a resolv.conf by hand", host: host(withAdmin("192.0.2.53", ""), withResolvConf(file("nameserver 10.0.0.9\n"))),
			want: []string{yaml + "/etc/resolv.conf; not used: 10.0.0.9"},
		},
		{name: "last-good is not a claim", host: host(withAdmin("192.0.2.53", ""), withCaptured(sys))},
		{
			name: "all conflicts at once", host: host(withAdmin("198.51.100.1", "198.51.100.2"), withNetworkManager(byHand("eth0", "192.0.2.53", "10.0.0.2"))),
			want: []string{
				first + "10.0.0.2" + last + "ipv4.ignore-auto-dns yes to ignore the latter",
				yaml + "NetworkManager eth0 (System eth0); not used: 192.0.2.53 10.0.0.2",
			},
		},
		{name: "a faulty configuration is not used", host: host(withAdmin("192.0.2.53", ""), withConfigFault(errors.New("x")), withNetworkManager(dnsConfig("eth0", sys, "")))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, NewPlan(tt.host).Conflicts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
