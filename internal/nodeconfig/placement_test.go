package nodeconfig

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestPlace places configurations on a host with 10.0.0.5 (the node IP), 192.168.7.5, 169.254.20.10
// and fd00::5.
func TestPlace(t *testing.T) {
	const noNode = "none"
	tests := []struct {
		name       string
		nodeConfig string
		kubelet    string // read instead of nodeConfig
		nodeDNS    string
		node       string // "" is 10.0.0.5

		listen     string
		all        bool
		nameserver string
		clusterDNS string
		problems   []string // a part of each
	}{
		{
			name:       "no settings",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
		},
		{
			name:       "OpenShift 3.11",
			nodeConfig: "{dnsIP: 0.0.0.0, dnsBindAddress: 127.0.0.1:53}",
			listen:     "10.0.0.5:53 127.0.0.1:53",
			nameserver: "10.0.0.5",
		},
		{
			name:       "OpenShift 3.9 with dnsIP on a second interface",
			nodeConfig: "{dnsIP: 192.168.7.5, dnsBindAddress: 127.0.0.1:53}",
			listen:     "192.168.7.5:53 127.0.0.1:53",
			nameserver: "192.168.7.5",
		},
		{
			name:       "dnsIP ::",
			nodeConfig: `{dnsIP: "::"}`,
			node:       "fd00::5",
			listen:     "[fd00::5]:53",
			nameserver: "fd00::5",
		},
		{
			name:       "nodeIP takes precedence over the routes",
			nodeConfig: "{dnsIP: 0.0.0.0, nodeIP: 192.168.7.5}",
			listen:     "192.168.7.5:53",
			nameserver: "192.168.7.5",
		},
		{
			name:       "nodeIP of another host",
			nodeConfig: "{dnsIP: 0.0.0.0, nodeIP: 10.9.9.9}",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			problems:   []string{"nodeIP 10.9.9.9 is not an address of this host"},
		},
		{
			name:       "nodeIP loopback",
			nodeConfig: "{nodeIP: 127.0.0.1}",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			problems:   []string{"nodeIP 127.0.0.1 is loopback"},
		},
		{
			name:       "kubeadm",
			kubelet:    "{clusterDNS: [10.96.0.10]}",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			clusterDNS: "10.96.0.10",
		},
		{
			name:       "kubeadm, dual stack",
			kubelet:    `{clusterDNS: [10.96.0.10, "fd02::a", 10.96.0.10]}`,
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			clusterDNS: "10.96.0.10 fd02::a",
		},
		{
			name:       "pods get both addresses of the node",
			kubelet:    `{clusterDNS: [10.0.0.5, "fd00::5"]}`,
			listen:     "10.0.0.5:53 [fd00::5]:53",
			nameserver: "10.0.0.5",
		},
		{
			name:       "node address first, cluster DNS as the fallback of pods",
			kubelet:    "{clusterDNS: [169.254.20.10, 10.96.0.10]}",
			listen:     "169.254.20.10:53",
			nameserver: "169.254.20.10",
			clusterDNS: "10.96.0.10",
		},
		{
			name:       "cluster DNS first, node IP as the fallback",
			kubelet:    "{clusterDNS: [10.96.0.10, 0.0.0.0]}",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			clusterDNS: "10.96.0.10",
		},
		{
			name:       "dnsIP loopback: pods fail, the node works",
			nodeConfig: "{dnsIP: 127.0.0.1}",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			problems:   []string{"the nameserver 127.0.0.1, a loopback address"},
		},
		{
			name:       "clusterDNS of node-dns.yaml wins",
			kubelet:    "{clusterDNS: [10.96.0.10]}",
			nodeDNS:    "{clusterDNS: [10.0.9.1:5353, 10.0.9.2]}",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			clusterDNS: "10.0.9.1:5353 10.0.9.2",
		},
		{
			name:       "clusterDNS is this node",
			nodeDNS:    "{clusterDNS: [10.0.0.5, 10.0.9.2]}",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			clusterDNS: "10.0.9.2",
			problems:   []string{"cluster DNS server 10.0.0.5 is node-dns itself"},
		},
		{
			name:       "clusterDNS on this host, at another port",
			nodeDNS:    "{clusterDNS: [10.0.0.5:8053]}",
			listen:     "10.0.0.5:53",
			nameserver: "10.0.0.5",
			clusterDNS: "10.0.0.5:8053",
		},
		{
			name:       "clusterDNS at dnsBindAddress",
			nodeConfig: "{dnsBindAddress: 127.0.0.1:53}",
			nodeDNS:    "{clusterDNS: [127.0.0.1]}",
			listen:     "10.0.0.5:53 127.0.0.1:53",
			nameserver: "10.0.0.5",
			problems:   []string{"cluster DNS server 127.0.0.1 is node-dns itself"},
		},
		{
			name:       "dnsBindAddress 0.0.0.0, at the same port",
			nodeConfig: "{dnsIP: 0.0.0.0, dnsBindAddress: 0.0.0.0:53}",
			listen:     "10.0.0.5:53 127.0.0.1:53",
			nameserver: "10.0.0.5",
		},
		{
			name:       "dnsBindAddress 0.0.0.0, at another port",
			nodeConfig: "{dnsIP: 192.168.7.5, dnsBindAddress: 0.0.0.0:8053}",
			listen:     "192.168.7.5:53 127.0.0.1:8053 10.0.0.5:8053",
			nameserver: "192.168.7.5",
		},
		{
			name:       "dnsBindAddress ::",
			nodeConfig: `{dnsBindAddress: "[::]:53"}`,
			listen:     "10.0.0.5:53 127.0.0.1:53 [::1]:53",
			nameserver: "10.0.0.5",
		},
		{
			name:       "dnsBindAddress without a host",
			nodeConfig: `{dnsBindAddress: ":8053"}`,
			listen:     "10.0.0.5:53 127.0.0.1:8053 10.0.0.5:8053",
			nameserver: "10.0.0.5",
		},
		{
			name:       "dnsBindAddress of another host",
			nodeConfig: "{dnsBindAddress: 10.9.9.9:53}",
			listen:     "10.0.0.5:53 10.9.9.9:53",
			nameserver: "10.0.0.5",
			problems:   []string{"dnsBindAddress 10.9.9.9 is not an address of this host"},
		},
		{
			name:       "listen on another address",
			nodeConfig: "{dnsIP: 0.0.0.0, dnsBindAddress: 127.0.0.1:53}",
			nodeDNS:    "{listen: 192.168.7.5}",
			listen:     "192.168.7.5:53 127.0.0.1:53",
			nameserver: "192.168.7.5",
		},
		{
			name:       "listen on loopback and another port, unusable in resolv.conf",
			nodeDNS:    "{listen: [127.0.0.1:10053, 192.168.7.5:5353, 127.0.0.2]}",
			listen:     "127.0.0.1:10053 192.168.7.5:5353 127.0.0.2:53",
			nameserver: "10.0.0.5",
		},
		{
			name:       "listen on the address of another host, unusable in resolv.conf",
			nodeDNS:    "{listen: [10.9.9.9, 192.168.7.5]}",
			listen:     "10.9.9.9:53 192.168.7.5:53",
			nameserver: "192.168.7.5",
			problems:   []string{"listen 10.9.9.9 is not an address of this host"},
		},
		{
			name:       "listen auto and an address",
			nodeDNS:    "{listen: [192.168.7.5, auto, 10.0.0.5:53]}",
			listen:     "10.0.0.5:53 192.168.7.5:53",
			nameserver: "10.0.0.5",
		},
		{
			name:       "listen all",
			nodeConfig: "{dnsIP: 0.0.0.0, dnsBindAddress: 127.0.0.1:53}",
			nodeDNS:    "{listen: all, clusterDNS: [192.168.7.5, 10.0.9.1]}",
			listen:     "127.0.0.1:53",
			all:        true,
			nameserver: "10.0.0.5",
			clusterDNS: "10.0.9.1",
			problems:   []string{"cluster DNS server 192.168.7.5 is node-dns itself"},
		},
		{
			name:       "listen all, and another port",
			nodeDNS:    "{listen: [all, 127.0.0.1:5353]}",
			listen:     "127.0.0.1:5353",
			all:        true,
			nameserver: "10.0.0.5",
		},
		{
			name:       "no default route",
			nodeConfig: "{dnsIP: 0.0.0.0, dnsBindAddress: 127.0.0.1:53}",
			node:       noNode,
			listen:     "127.0.0.1:53",
			problems:   []string{"no address that /etc/resolv.conf can name"},
		},
		{
			name:       "no default route, but a local dnsIP",
			nodeConfig: "{dnsIP: 192.168.7.5, dnsBindAddress: 0.0.0.0:53}",
			node:       noNode,
			listen:     "192.168.7.5:53 127.0.0.1:53",
			nameserver: "192.168.7.5",
		},
		{
			name:     "default route with a loopback address",
			node:     "127.0.0.1",
			problems: []string{"no address that /etc/resolv.conf can name"},
		},
	}
	local := map[string]bool{"10.0.0.5": true, "192.168.7.5": true, "169.254.20.10": true, "fd00::5": true}
	isLocal := func(a netip.Addr) bool { return a.IsLoopback() || local[a.String()] }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range map[string]string{"NodeConfig": tt.nodeConfig, "Kubelet": tt.kubelet, "NodeDNS": tt.nodeDNS} {
				if text != "" {
					write(t, pathOf(root, name), text)
				}
			}
			c, err := Load(DefaultPaths(root))
			if err != nil {
				t.Fatal(err)
			}
			node := netip.MustParseAddr("10.0.0.5")
			if tt.node == noNode {
				node = netip.Addr{}
			} else if tt.node != "" {
				node = netip.MustParseAddr(tt.node)
			}
			got := c.Place(Host{IsLocal: isLocal, NodeIP: node})
			want := Placement{All: tt.all}
			for word := range strings.FieldsSeq(tt.listen) {
				want.Listen = append(want.Listen, netip.MustParseAddrPort(word))
			}
			for word := range strings.FieldsSeq(tt.clusterDNS) {
				want.ClusterDNS = append(want.ClusterDNS, nameserver.MustParse(word))
			}
			if tt.nameserver != "" {
				want.Nameserver = netip.MustParseAddr(tt.nameserver)
			}
			checkProblems(t, tt.problems, got.Problems)
			got.Problems, got.Spare = nil, nil // TestPlaceSpare tests Spare
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
				cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func checkProblems(t *testing.T, want, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("problems %q, want %q", got, want)
		return
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("problem %q, want %q", got[i], want[i])
		}
	}
}

// TestPlaceSpare: SkyDNS once kept a node from ever becoming ready, because it held the address in
// dnsBindAddress. An address that another setting also names is not spare. The host is that of
// TestPlace.
func TestPlaceSpare(t *testing.T) {
	for _, tt := range []struct{ name, nodeConfig, nodeDNS, want string }{
		{"OpenShift 3.11", "{dnsIP: 0.0.0.0, dnsBindAddress: 127.0.0.1:53}", "", "127.0.0.1:53"},
		{"no dnsBindAddress", "{dnsIP: 0.0.0.0}", "", ""},
		{"listen has the same address", "{dnsBindAddress: 127.0.0.1:53}", "{listen: 127.0.0.1}", ""},
		{"an address given to pods", "{dnsIP: 0.0.0.0, dnsBindAddress: 0.0.0.0:53}", "", "127.0.0.1:53"},
		{"another port", "{dnsIP: 0.0.0.0, dnsBindAddress: 0.0.0.0:8053}", "", "127.0.0.1:8053 10.0.0.5:8053"},
		{"listen all covers it", "{dnsBindAddress: 192.168.7.5:53}", "{listen: all}", ""},
		{"address of resolv.conf", "{dnsIP: 0.0.0.0, dnsBindAddress: 10.0.0.5:53}", "{listen: 10.0.0.5:5300}", ""},
	} {
		root := t.TempDir()
		write(t, pathOf(root, "NodeConfig"), tt.nodeConfig)
		write(t, pathOf(root, "NodeDNS"), tt.nodeDNS)
		c, err := Load(DefaultPaths(root))
		if err != nil {
			t.Fatal(err)
		}
		isLocal := func(a netip.Addr) bool {
			return a.IsLoopback() || slices.Contains([]string{"10.0.0.5", "192.168.7.5"}, a.String())
		}
		place := c.Place(Host{IsLocal: isLocal, NodeIP: netip.MustParseAddr("10.0.0.5")})
		if got := joined(place.Spare); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestPlaceAsked: a pod keeps its nameserver address for life. The old node IP once refused its
// pods as soon as the default route moved, although the address was still local.
func TestPlaceAsked(t *testing.T) {
	for _, tt := range []struct{ name, config, want, spare string }{
		{"auto", "", "10.0.0.5:53 192.168.7.5:53", "192.168.7.5:53"},
		{"auto and an address", "{listen: [auto, 192.168.7.5]}", "10.0.0.5:53 192.168.7.5:53", ""},
		{"listen has addresses", "{listen: 10.0.0.5}", "10.0.0.5:53", ""},
	} {
		root := t.TempDir()
		write(t, pathOf(root, "NodeDNS"), tt.config)
		c, err := Load(DefaultPaths(root))
		if err != nil {
			t.Fatal(err)
		}
		var asked []netip.Addr
		for _, addr := range []string{"192.168.7.5", "10.0.0.5", "203.0.113.9", "127.0.0.9"} { // the last two: no longer local, and unreachable for pods
			asked = append(asked, netip.MustParseAddr(addr))
		}
		isLocal := func(a netip.Addr) bool {
			return a.IsLoopback() || slices.Contains([]string{"10.0.0.5", "192.168.7.5"}, a.String())
		}
		place := c.Place(Host{IsLocal: isLocal, NodeIP: netip.MustParseAddr("10.0.0.5"), Asked: asked})
		if got := joined(place.Listen); got != tt.want {
			t.Errorf("%s: got listeners %q, want %q", tt.name, got, tt.want)
		}
		if got := joined(place.Spare); got != tt.spare {
			t.Errorf("%s: got spare %q, want %q", tt.name, got, tt.spare)
		}
	}
}

func joined(addrs []netip.AddrPort) string {
	var all []string
	for _, at := range addrs {
		all = append(all, at.String())
	}
	return strings.Join(all, " ")
}

// TestPlaceZero places a Config without any file.
func TestPlaceZero(t *testing.T) {
	got := Config{}.Place(Host{IsLocal: func(netip.Addr) bool { return false }, NodeIP: netip.MustParseAddr("::ffff:10.0.0.5")})
	if len(got.Listen) != 1 || got.Listen[0].String() != "10.0.0.5:53" || got.Nameserver.String() != "10.0.0.5" {
		t.Errorf("got %+v", got)
	}
}

func TestReverseZones(t *testing.T) {
	tests := []struct {
		name, nodeConfig, nodeDNS, servers, want string
	}{
		{"OpenShift 3", "", "", "172.30.0.1", "30.172.in-addr.arpa."},
		{"two servers in one network", "", "", "10.96.0.10 10.96.0.11", "96.10.in-addr.arpa."},
		{"dual stack", "", "", "10.96.0.10 fd02::a", "96.10.in-addr.arpa. 0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.d.f.ip6.arpa."},
		{"no server", "", "", "", ""},
		{"server on this host", "", "", "127.0.0.1:5353 169.254.20.10 fe80::1%eth0", ""},
		{"configured networks", "", "{serviceCIDRs: [172.30.0.0/16], podCIDRs: [10.128.0.0/15]}", "10.0.9.1", "30.172.in-addr.arpa. 128.10.in-addr.arpa. 129.10.in-addr.arpa."},
		// A node group with proxyArguments.cluster-cidr must keep the service zone that it had with
		// OpenShift 3.
		{"pods from node-config", "{proxyArguments: {cluster-cidr: [10.128.0.0/16]}}", "", "172.30.0.1", "30.172.in-addr.arpa. 128.10.in-addr.arpa."},
		{"podCIDRs of node-dns.yaml win", "{proxyArguments: {cluster-cidr: [10.128.0.0/16]}}", "{podCIDRs: [10.1.0.0/16], serviceCIDRs: []}", "172.30.0.1", "1.10.in-addr.arpa."},
		{"overlapping networks", "", "{serviceCIDRs: [10.0.0.0/16], podCIDRs: [10.0.0.0/16]}", "", "0.10.in-addr.arpa."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, pathOf(root, "NodeConfig"), tt.nodeConfig)
			write(t, pathOf(root, "NodeDNS"), tt.nodeDNS)
			c, err := Load(DefaultPaths(root))
			if err != nil {
				t.Fatal(err)
			}
			var servers []nameserver.Server
			for word := range strings.FieldsSeq(tt.servers) {
				servers = append(servers, nameserver.MustParse(word))
			}
			var got []string
			for _, zone := range c.ReverseZones(servers) {
				got = append(got, zone.String())
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
