package view

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/policytest"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestEveryClaim enables every source at once. The strongest source of each domain wins, and all
// others are reported with the reason.
func TestEveryClaim(t *testing.T) {
	everybody := func() policy.Inputs {
		in := policy.Inputs{
			Config: policytest.Config(t, "clusterDNS: [172.30.0.10]\nserviceCIDRs: []\nupstreams: [192.0.2.53]\nroutes: [{domain: corp.example, servers: [192.0.2.54]}]\n",
				"dnsNameservers: [\"192.0.2.55:53\"]\n"),
			Net: policytest.Node(), Bus: overBus(t, "/a.example/192.0.2.98"),
			Dnsmasq: policytest.Dnsmasq(t, "server=192.0.2.60\nserver=/corp.example/b.example/192.0.2.61\nserver=/svc.cluster.local/192.0.2.62\nserver=//192.0.2.10\n"),
			From:    nameserver.NetworkManager, Origin: "NetworkManager eth0",
			Captured: upstream.Set{Servers: policytest.Servers("10.0.0.2", "192.0.2.10"), Routes: []upstream.Route{
				{Domain: dnsname.MustParse("b.example"), Servers: policytest.Servers("10.8.0.1"), Source: "NetworkManager tun0 (corpvpn)"}, {Domain: dnsname.MustParse("x.cluster.local"), Servers: policytest.Servers("10.8.0.1")},
			}},
			Outdone: []nameserver.Claim{
				upstream.Candidate{Origin: upstream.NetworkManagerFile, Set: upstream.Set{Servers: policytest.Servers("10.0.0.7")}}.Claim(), // not weaker: the hook has not seen it yet
				upstream.Candidate{Origin: upstream.ResolvConf, Set: upstream.Set{Servers: policytest.Servers("10.0.0.9")}}.Claim(),
			},
		}
		in.Upstreams = policytest.Servers("192.0.2.52")
		return in
	}
	tests := []struct {
		name    string
		change  func(*policy.Inputs)
		routes  string
		lost    []string
		refused []string
		notes   []string // notes about which source won
	}{
		{
			name:   "all",
			routes: "a.example.=192.0.2.98 cluster.local.=172.30.0.10 corp.example.=192.0.2.54 b.example.=192.0.2.61 .=192.0.2.52",
			lost: []string{
				"corp.example. 192.0.2.61: routes /etc/node-dns/node-dns.yaml:4 wins over dnsmasq /etc/dnsmasq.conf:2",
				"// : none of its servers is usable",
				"svc.cluster.local. 192.0.2.62: it is in the cluster's zone, which another source answers",
				"b.example. 10.8.0.1: dnsmasq /etc/dnsmasq.conf:2 wins over NetworkManager tun0 (corpvpn)",
				"x.cluster.local. 10.8.0.1: it is in the cluster's zone",
				". 192.0.2.53: the command line wins over upstreams /etc/node-dns/node-dns.yaml:3",
				". 192.0.2.60: the command line wins over dnsmasq /etc/dnsmasq.conf:1",
				". 192.0.2.55: the command line wins over dnsNameservers /etc/origin/node/node-config.yaml:1",
				". 10.0.0.2: the command line wins over NetworkManager eth0",
				". 10.0.0.9: the command line wins over /etc/resolv.conf",
			},
			refused: []string{
				"// 192.0.2.10 from dnsmasq /etc/dnsmasq.conf:4: this node: would loop", ". 192.0.2.10 from NetworkManager eth0: this node: would loop",
			},
			notes: []string{"ignoring 192.0.2.10 for . (dnsmasq /etc/dnsmasq.conf:4): it is this node, so the entry has no effect"},
		},
		{
			name: "dnsmasq's files conflict with NetworkManager",
			change: func(in *policy.Inputs) {
				*in = policy.Inputs{Config: policytest.Config(t, "", ""), Net: in.Net, From: in.From, Origin: in.Origin, Captured: upstream.Set{Servers: policytest.Servers("10.0.0.2")}, Dnsmasq: policytest.Dnsmasq(t, "server=192.0.2.60\n")}
			},
			routes: ".=192.0.2.60",
			lost:   []string{". 10.0.0.2: dnsmasq /etc/dnsmasq.conf:1 wins over NetworkManager eth0"},
			notes:  []string{"dnsmasq /etc/dnsmasq.conf:1 wins over NetworkManager eth0; not used: 10.0.0.2"},
		},
		{
			name: "servers that no source names any more",
			change: func(in *policy.Inputs) {
				*in = policy.Inputs{Config: policytest.Config(t, "", ""), Net: in.Net, From: nameserver.LastGood, Origin: "NetworkManager eth0", Captured: upstream.Set{Servers: policytest.Servers("10.0.0.2")}, Dnsmasq: policytest.Dnsmasq(t, "server=192.0.2.60\n")}
			},
			routes: ".=192.0.2.60",
			lost:   []string{". 10.0.0.2: dnsmasq /etc/dnsmasq.conf:1 wins over last-good NetworkManager eth0"},
		},
		{
			name: "a looping server from dnsmasq keeps the names",
			change: func(in *policy.Inputs) {
				*in = policy.Inputs{Config: policytest.Config(t, "", ""), Net: in.Net, From: in.From, Origin: in.Origin, Captured: upstream.Set{Servers: policytest.Servers("10.0.0.2")}, Dnsmasq: policytest.Dnsmasq(t, "server=192.0.2.60\nserver=192.0.2.10\n")}
				in.Looping = map[nameserver.Server]struct{}{policytest.Servers("192.0.2.60")[0]: {}}
			},
			lost: []string{". 10.0.0.2: dnsmasq /etc/dnsmasq.conf:1 wins over NetworkManager eth0"},
			refused: []string{
				". 192.0.2.60 from dnsmasq /etc/dnsmasq.conf:1: it sends queries back to this node", ". 192.0.2.10 from dnsmasq /etc/dnsmasq.conf:1: this node: would loop",
			},
			notes: []string{
				"ignoring 192.0.2.10 for . (dnsmasq /etc/dnsmasq.conf:1): it is this node, so the entry has no effect",
				"dnsmasq /etc/dnsmasq.conf:1 wins over NetworkManager eth0; not used: 10.0.0.2",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := everybody()
			if tt.change != nil {
				tt.change(&in)
			}
			s := policy.New(in)
			if got := policytest.RouteText(s.Routes); got != tt.routes {
				t.Errorf("routes\n%s, want\n%s", got, tt.routes)
			}
			var lost, refused, notes []string
			for _, l := range lossStatus(s) {
				lost = append(lost, l.Domain+" "+strings.Join(l.Servers, " ")+": "+l.Why)
			}
			for _, r := range refusedStatus(s) {
				refused = append(refused, r.Domain+" "+r.Server+" from "+r.Source+": "+r.Why)
			}
			for _, n := range s.Notes {
				if strings.Contains(n, "wins over") || strings.Contains(n, "is this node") {
					notes = append(notes, n)
				}
			}
			for what, diff := range map[string]string{"lost": cmp.Diff(tt.lost, lost), "refused": cmp.Diff(tt.refused, refused), "notes": cmp.Diff(tt.notes, notes)} {
				if diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

func overBus(t *testing.T, texts ...string) policy.Bus {
	t.Helper()
	rules, err := dnsmasqconf.ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Bus{Rules: rules, RulesBy: "SetDomainServers by openshift (pid 812, uid 0, :1.7)"}
}
