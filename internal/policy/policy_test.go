package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/policytest"
	"github.com/node-dns/node-dns/internal/upstream"
)

func TestNew(t *testing.T) {
	captured := upstream.Set{Servers: policytest.Servers("10.0.0.2", "10.0.0.3")}
	tests := []struct {
		name     string
		nodeDNS  string // content of node-dns.yaml
		config   string // content of node-config.yaml
		change   func(*Inputs)
		listen   string
		routes   string
		sources  []string // of the routes, in order
		problems []string
	}{
		{
			name:    "captured upstreams, nothing configured",
			listen:  "192.0.2.10:53",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
		{
			name:    "OpenShift 3.11: dnsIP 0.0.0.0 and a node process's own nameserver",
			config:  "dnsIP: 0.0.0.0\ndnsDomain: prod.internal\ndnsBindAddress: 127.0.0.1:53\n",
			listen:  "192.0.2.10:53 127.0.0.1:53",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
		{
			name:    "dnsIP elsewhere is the cluster DNS server",
			config:  "dnsIP: 172.30.0.10\n",
			listen:  "192.0.2.10:53",
			routes:  "cluster.local.=172.30.0.10 30.172.in-addr.arpa.=172.30.0.10 .=10.0.0.2,10.0.0.3",
			sources: []string{"dnsIP /etc/origin/node/node-config.yaml:1", "dnsIP /etc/origin/node/node-config.yaml:1", "NetworkManager eth0"},
		},
		{
			name:    "upstreams of node-dns.yaml replace node-config.yaml and captured ones",
			nodeDNS: "upstreams: [192.0.2.53]\n",
			config:  "dnsNameservers: [\"192.0.2.99:53\"]\n",
			listen:  "192.0.2.10:53",
			routes:  ".=192.0.2.53",
			sources: []string{"upstreams /etc/node-dns/node-dns.yaml:1"},
		},
		{
			name:    "dnsNameservers win over captured ones",
			config:  "dnsNameservers: [\"192.0.2.99:53\"]\n",
			listen:  "192.0.2.10:53",
			routes:  ".=192.0.2.99",
			sources: []string{"dnsNameservers /etc/origin/node/node-config.yaml:1"},
		},
		{
			// dnsRecursiveResolvConf named a copy of our resolv.conf, and the node had no
			// upstreams.
			name:     "dnsNameservers are this node: captured ones are used",
			config:   "dnsNameservers: [\"192.0.2.10:53\"]\n",
			listen:   "192.0.2.10:53",
			routes:   ".=10.0.0.2,10.0.0.3",
			sources:  []string{"NetworkManager eth0"},
			problems: []string{"ignoring 192.0.2.10 (dnsNameservers /etc/origin/node/node-config.yaml:1): it is this node and would loop"},
		},
		{
			name:    "upstreams are this node: no fallback, queries must not leak",
			nodeDNS: "upstreams: [192.0.2.10]\n",
			listen:  "192.0.2.10:53",
			problems: []string{
				"ignoring 192.0.2.10 (upstreams /etc/node-dns/node-dns.yaml:1): it is this node and would loop",
				"no upstream nameserver is known: only cluster names are answered",
			},
		},
		{
			name:    "the command line wins over all",
			nodeDNS: "upstreams: [192.0.2.53]\n",
			change: func(in *Inputs) {
				in.Upstreams = policytest.Servers("127.0.0.1:5300")
				in.Listen = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:10053")}
			},
			listen:  "127.0.0.1:10053",
			routes:  ".=127.0.0.1:5300",
			sources: []string{"the command line"},
		},
		{
			// A list of more than 64 addresses used to be an error, and node-dns listened nowhere.
			name:    "more addresses than file descriptors",
			nodeDNS: "listen: [" + strings.Join(loopbacks(100), ", ") + "]\n",
			change:  func(in *Inputs) { in.MaxFiles = 300 },
			listen:  strings.Join(loopbacks(44), ":53 ") + ":53",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
			problems: []string{
				"node-dns listens on the first 44 of 100 addresses, not on 127.0.0.45:53 and those after it (limits: 1024 addresses, and LimitNOFILE=)",
			},
		},
		{
			name:    "split DNS of a VPN with configured routes, which win",
			nodeDNS: "routes:\n  - {domain: corp.example, servers: [198.51.100.1]}\n",
			change: func(in *Inputs) {
				in.Captured.Routes = []upstream.Route{
					{Domain: dnsname.MustParse("corp.example"), Servers: policytest.Servers("10.8.0.1")},
					{Domain: dnsname.MustParse("vpn.example"), Servers: policytest.Servers("10.8.0.1")},
				}
			},
			listen:  "192.0.2.10:53",
			routes:  "corp.example.=198.51.100.1 vpn.example.=10.8.0.1 .=10.0.0.2,10.0.0.3",
			sources: []string{"routes /etc/node-dns/node-dns.yaml:1", "NetworkManager eth0", "NetworkManager eth0"},
		},
		{
			name:     "our own address is never an upstream, from any source",
			nodeDNS:  "upstreams: [192.0.2.10, 192.0.2.53]\n",
			listen:   "192.0.2.10:53",
			routes:   ".=192.0.2.53",
			sources:  []string{"upstreams /etc/node-dns/node-dns.yaml:1"},
			problems: []string{"ignoring 192.0.2.10 (upstreams /etc/node-dns/node-dns.yaml:1): it is this node and would loop"},
		},
		{
			name:     "looping upstream is left out",
			change:   func(in *Inputs) { in.Looping = map[nameserver.Server]struct{}{policytest.Servers("10.0.0.2")[0]: {}} },
			listen:   "192.0.2.10:53",
			routes:   ".=10.0.0.3",
			sources:  []string{"NetworkManager eth0"},
			problems: []string{"ignoring 10.0.0.2 (NetworkManager eth0): it sends queries back to this node"},
		},
		{
			name:    "domain route with only a looping server stays: names must not leak",
			nodeDNS: "routes:\n  - {domain: corp.example, servers: [198.51.100.1]}\n",
			change: func(in *Inputs) {
				in.Looping = map[nameserver.Server]struct{}{policytest.Servers("198.51.100.1")[0]: {}}
			},
			listen:   "192.0.2.10:53",
			routes:   "corp.example.= .=10.0.0.2,10.0.0.3",
			sources:  []string{"routes /etc/node-dns/node-dns.yaml:1", "NetworkManager eth0"},
			problems: []string{"ignoring 198.51.100.1 (routes /etc/node-dns/node-dns.yaml:1): it sends queries back to this node"},
		},
		{
			name: "dnsmasq files win over NetworkManager and lose to node-dns.yaml",
			change: func(in *Inputs) {
				in.Dnsmasq = policytest.Dnsmasq(t, "server=192.0.2.60\nserver=/corp.example/lab.example/192.0.2.61\nserver=//192.0.2.62\nlocal=/home/\nserver=/x.lab.example/#\n")
			},
			nodeDNS: "routes:\n  - {domain: corp.example, servers: [198.51.100.1]}\n",
			listen:  "192.0.2.10:53",
			routes:  "corp.example.=198.51.100.1 lab.example.=192.0.2.61 home.= x.lab.example.=192.0.2.60 //=192.0.2.62 .=192.0.2.60",
			sources: []string{
				"routes /etc/node-dns/node-dns.yaml:1", "dnsmasq /etc/dnsmasq.conf:2", "dnsmasq /etc/dnsmasq.conf:4", "dnsmasq /etc/dnsmasq.conf:5",
				"dnsmasq /etc/dnsmasq.conf:3", "dnsmasq /etc/dnsmasq.conf:1",
			},
		},
		{
			name:    "dnsmasq servers do not get cluster names with their own servers",
			nodeDNS: "clusterDNS: [172.30.0.10]\nserviceCIDRs: []\nupstreams: [192.0.2.53]\n",
			change: func(in *Inputs) {
				in.Dnsmasq = policytest.Dnsmasq(t, "server=/svc.cluster.local/192.0.2.61\nserver=192.0.2.60\n")
			},
			listen:  "192.0.2.10:53",
			routes:  "cluster.local.=172.30.0.10 .=192.0.2.53",
			sources: []string{"clusterDNS /etc/node-dns/node-dns.yaml:1", "upstreams /etc/node-dns/node-dns.yaml:3"},
		},
		{
			name: "dnsmasq listen-address and interface add addresses",
			change: func(in *Inputs) {
				in.Dnsmasq = policytest.Dnsmasq(t, "interface=lo,*\nexcept-interface=eth0\nlisten-address=127.0.0.1,192.0.2.77\n")
			},
			listen:  "192.0.2.10:53 192.0.2.77:53 10.128.0.1:53",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
		{
			name:    "dnsmasq port, except for OpenShift's nameserver",
			config:  "dnsIP: 0.0.0.0\ndnsBindAddress: 127.0.0.1:53\n",
			change:  func(in *Inputs) { in.Dnsmasq = policytest.Dnsmasq(t, "port=5353\nlisten-address=192.0.2.77\n") },
			listen:  "192.0.2.10:5353 127.0.0.1:53 192.0.2.77:5353",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
		{
			name:    "dnsmasq port=0 is ignored",
			change:  func(in *Inputs) { in.Dnsmasq = policytest.Dnsmasq(t, "port=0\ndhcp-range=192.0.2.100,static\n") },
			listen:  "192.0.2.10:53",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
		{
			name: "command line wins over dnsmasq port",
			change: func(in *Inputs) {
				in.Dnsmasq = policytest.Dnsmasq(t, "port=5353\n")
				in.Listen = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:10053")}
			},
			listen:  "127.0.0.1:10053",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
		{
			name:    "listen in node-dns.yaml wins over dnsmasq",
			nodeDNS: "listen: 192.0.2.10\n",
			change:  func(in *Inputs) { in.Dnsmasq = policytest.Dnsmasq(t, "listen-address=192.0.2.77\nport=5353\n") },
			listen:  "192.0.2.10:53",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
		{
			name:     "no upstream at all",
			change:   func(in *Inputs) { in.Captured = upstream.Set{} },
			listen:   "192.0.2.10:53",
			problems: []string{"no upstream nameserver is known: only cluster names are answered"},
		},
		{
			name:    "listen: all, without lo and tentative addresses",
			nodeDNS: "listen: all\n",
			listen:  "192.0.2.10:53 10.128.0.1:53",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
		{
			name:    "listen: all, without addresses of NodeLocal DNSCache that are translated",
			nodeDNS: "listen: all\nintercept: [169.254.20.10]\nkubeconfig: /k\n",
			change: func(in *Inputs) {
				in.Net.Addrs = append(slices.Clone(in.Net.Addrs), netstate.Addr{Addr: netip.MustParseAddr("169.254.20.10"), Interface: "nodelocaldns", Up: true})
			},
			listen:  "192.0.2.10:53 10.128.0.1:53",
			routes:  ".=10.0.0.2,10.0.0.3",
			sources: []string{"NetworkManager eth0"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := Inputs{Config: policytest.Config(t, test.nodeDNS, test.config), Net: policytest.Node(), Captured: captured, From: nameserver.NetworkManager, Origin: "NetworkManager eth0"}
			if test.change != nil {
				test.change(&in)
			}
			s := New(in)
			if got := policytest.AddrText(s.Listen); got != test.listen {
				t.Errorf("got listeners %s, want %s", got, test.listen)
			}
			if got := policytest.RouteText(s.Routes); got != test.routes {
				t.Errorf("got routes %s, want %s", got, test.routes)
			}
			var sources []string
			for _, route := range s.Routes {
				sources = append(sources, route.Source)
			}
			if diff := cmp.Diff(test.sources, sources); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.problems, s.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// loopbacks returns the first n loopback addresses from 127.0.0.1 on.
func loopbacks(n int) (addrs []string) {
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("127.0.0.%d", i+1))
	}
	return addrs
}

// TestServesNothingUnknown: while the cluster domain is unknown there is no listener, whatever is
// configured.
func TestServesNothingUnknown(t *testing.T) {
	config := policytest.Config(t, "listen: all\nupstreams: [192.0.2.53]\nclusterDNS: [172.30.0.10]\n", "dnsBindAddress: 127.0.0.1:53\n")
	known := New(Inputs{Config: config, Net: policytest.Node()})
	if len(known.Listen) != 3 || len(known.Routes) != 3 {
		t.Fatalf("listens on %v, routes %v", known.Listen, known.Routes)
	}
	config.ClusterDomain = nodeconfig.Config{}.ClusterDomain
	got := New(Inputs{Config: config, Net: policytest.Node(), Listen: known.Listen})
	if len(got.Listen)+len(got.Routes)+len(got.Apexes)+len(got.Candidates) > 0 {
		t.Errorf("serves %+v", got)
	}
	if len(got.Problems) != 1 || !strings.Contains(got.Problems[0], "the cluster domain is unknown") {
		t.Errorf("problems %q", got.Problems)
	}
}
