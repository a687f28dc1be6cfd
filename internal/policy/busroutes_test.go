package policy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/test/policytest"
	"github.com/node-dns/node-dns/internal/upstream"
)

// overBus is the state after a program's D-Bus call.
func overBus(t testing.TB, texts ...string) Bus {
	t.Helper()
	rules, err := dnsmasqconf.ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return Bus{Rules: rules, RulesBy: "SetDomainServers by openshift (pid 812, uid 0, :1.7)"}
}

// TestBusRoutes: D-Bus settings win, but never make node-dns query itself, and take no name from
// the cluster unless they name its domain.
func TestBusRoutes(t *testing.T) {
	const by = "D-Bus SetDomainServers by openshift (pid 812, uid 0, :1.7)"
	const openshift = "dnsIP: 0.0.0.0\ndnsBindAddress: 127.0.0.1:53\nmasterKubeConfig: node.kubeconfig\n"
	tests := []struct {
		name       string
		set        []string
		nodeDNS    string
		config     string
		change     func(*Inputs)
		routes     string // "#local" for a domain without queries to upstreams
		overridden string
		overrides  string // the cluster's domains with another route
		notes      []string
	}{
		{
			name:       "D-Bus wins over all other sources",
			set:        []string{"192.0.2.99", "/corp.example/192.0.2.98"},
			nodeDNS:    "upstreams: [192.0.2.53]\nroutes: [{domain: corp.example, servers: [192.0.2.54]}]\n",
			config:     "dnsNameservers: [\"192.0.2.55:53\"]\n",
			change:     func(in *Inputs) { in.Upstreams = policytest.Servers("192.0.2.52") },
			routes:     "corp.example.=192.0.2.98 .=192.0.2.99",
			overridden: "corp.example.=192.0.2.54 .=192.0.2.52 .=192.0.2.53 .=192.0.2.55 .=10.0.0.2",
		},
		{
			name:   "domain in addition to captured upstreams",
			set:    []string{"/corp.example/192.0.2.98#5353@eth1"},
			routes: "corp.example.=192.0.2.98:5353@eth1 .=10.0.0.2",
		},
		{
			name:   "OpenShift SDN entries that point to this node",
			set:    []string{"/in-addr.arpa/127.0.0.1", "/cluster.local/127.0.0.1"},
			config: openshift,
			routes: ".=10.0.0.2",
			notes: []string{
				"ignoring 127.0.0.1 for in-addr.arpa. (" + by + "): it is this node, so the entry has no effect",
				"ignoring 127.0.0.1 for cluster.local. (" + by + "): it is this node, so the entry has no effect",
			},
		},
		{
			name:   "same address, used by another program",
			set:    []string{"/in-addr.arpa/127.0.0.1", "/cluster.local/127.0.0.1"},
			routes: "in-addr.arpa.=127.0.0.1 cluster.local.=127.0.0.1 .=10.0.0.2", overrides: "cluster.local.",
			notes: []string{by + " overrides the cluster's names in cluster.local."},
		},
		{
			name:   "one of two servers is this node",
			set:    []string{"/corp.example/192.0.2.10", "/corp.example/192.0.2.98"},
			routes: "corp.example.=192.0.2.98 .=10.0.0.2",
			notes:  []string{"ignoring 192.0.2.10 for corp.example. (" + by + "): it is this node, so the entry has no effect"},
		},
		{
			name:    "looping servers",
			set:     []string{"/corp.example/192.0.2.98", "192.0.2.97"},
			nodeDNS: "upstreams: [192.0.2.53]\n",
			change: func(in *Inputs) {
				in.Looping = map[nameserver.Server]struct{}{policytest.Servers("192.0.2.98")[0]: {}, policytest.Servers("192.0.2.97")[0]: {}}
			},
			routes: "corp.example.= .=192.0.2.53", overridden: ".=10.0.0.2",
		},
		{
			name:   "local domain and standard servers",
			set:    []string{"/corp.example/", "/lab.example/192.0.2.98", "/x.lab.example/#"},
			routes: "corp.example.#local lab.example.=192.0.2.98 x.lab.example.=10.0.0.2 .=10.0.0.2",
		},
		{
			name: "names without dots are local", set: []string{"//"},
			routes: ".#local", overridden: ".=10.0.0.2",
		},
		{
			name:   "standard servers without upstreams",
			set:    []string{"/corp.example/#"},
			change: func(in *Inputs) { in.Captured = upstream.Set{} },
			routes: "corp.example.=",
		},
		{
			name:       "standard servers win over a configured route",
			set:        []string{"/corp.example/#"},
			nodeDNS:    "routes: [{domain: corp.example, servers: [192.0.2.54]}]\n",
			routes:     "corp.example.=10.0.0.2 .=10.0.0.2",
			overridden: "corp.example.=192.0.2.54",
		},
		{
			name:   "domain above the cluster domain",
			set:    []string{"/local/192.0.2.98", "/in-addr.arpa/192.0.2.98"},
			config: "dnsIP: 172.30.0.10\n",
			routes: "local.=192.0.2.98 in-addr.arpa.=192.0.2.98 cluster.local.=172.30.0.10 30.172.in-addr.arpa.=172.30.0.10 .=10.0.0.2",
		},
		{
			name:   "cluster domain",
			set:    []string{"/cluster.local/192.0.2.98"},
			config: "dnsIP: 172.30.0.10\n",
			routes: "cluster.local.=192.0.2.98 30.172.in-addr.arpa.=172.30.0.10 .=10.0.0.2", overridden: "cluster.local.=172.30.0.10",
			overrides: "cluster.local.",
			notes:     []string{by + " overrides the cluster's names in cluster.local."},
		},
		{
			name:   "domain below the cluster domain",
			set:    []string{"/ext.cluster.local/192.0.2.98"},
			config: "dnsIP: 172.30.0.10\n",
			routes: "ext.cluster.local.=192.0.2.98 cluster.local.=172.30.0.10 30.172.in-addr.arpa.=172.30.0.10 .=10.0.0.2", overrides: "ext.cluster.local.",
			notes: []string{by + " overrides the cluster's names in ext.cluster.local."},
		},
		{
			name:   "local cluster domain, built-in resolver",
			set:    []string{"/cluster.local/"},
			config: openshift,
			routes: ".=10.0.0.2",
			notes:  []string{"/cluster.local/ (" + by + ") is answered locally by the built-in cluster resolver"},
		},
		{
			name:   "local cluster domain, no built-in resolver",
			set:    []string{"/cluster.local/"},
			config: "dnsIP: 172.30.0.10\n",
			routes: "cluster.local.#local 30.172.in-addr.arpa.=172.30.0.10 .=10.0.0.2", overridden: "cluster.local.=172.30.0.10",
			overrides: "cluster.local.",
			notes:     []string{by + " overrides the cluster's names in cluster.local."},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := Inputs{
				Config: policytest.Config(t, tt.nodeDNS, tt.config), Net: policytest.Node(), From: nameserver.NetworkManager, Origin: "NetworkManager eth0",
				Captured: upstream.Set{Servers: policytest.Servers("10.0.0.2")}, Bus: overBus(t, tt.set...),
			}
			if tt.change != nil {
				tt.change(&in)
			}
			s := New(in)
			text := func(routes []forward.Route) string {
				words := strings.Fields(policytest.RouteText(routes))
				for i := range words {
					if routes[i].Local {
						words[i] = strings.TrimSuffix(words[i], "=") + "#local"
					}
				}
				return strings.Join(words, " ")
			}
			if got := text(s.Routes); got != tt.routes {
				t.Errorf("routes\n%s, want\n%s", got, tt.routes)
			}
			var overridden []forward.Route
			for _, lost := range s.Lost {
				if lost.Barred == "" && !lost.GaveWay {
					overridden = append(overridden, forward.Route{Domain: lost.Domain, Servers: lost.Servers})
				}
			}
			if got := text(overridden); got != tt.overridden {
				t.Errorf("overridden\n%s, want\n%s", got, tt.overridden)
			}
			var overrides []string
			for _, domain := range s.Overrides {
				overrides = append(overrides, domain.String())
			}
			if got := strings.Join(overrides, " "); got != tt.overrides {
				t.Errorf("overrides %s, want %s", got, tt.overrides)
			}
			if diff := cmp.Diff(tt.notes, s.Notes); diff != "" {
				t.Errorf("notes (-want +got)\n%s", diff)
			}
			for _, route := range s.Routes {
				for _, server := range route.Servers {
					if server.Addr == netip.MustParseAddrPort("192.0.2.10:53") {
						t.Errorf("queries for %s go to this node", route.Domain)
					}
				}
			}
		})
	}
}
