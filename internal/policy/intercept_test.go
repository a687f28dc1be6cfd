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
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/test/policytest"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestInterceptUpstream: node-dns.yaml asked to intercept the site's nameserver. The helper made
// its address local, and no name outside the cluster resolved any more.
func TestInterceptUpstream(t *testing.T) {
	addr := netip.MustParseAddr
	problem := "not intercepting 10.0.0.2: it is an upstream (NetworkManager eth0) that this node must reach"
	for _, test := range []struct {
		name     string
		nodeDNS  string
		change   func(*Inputs)
		want     []netip.Addr
		problems []string
	}{
		{"another address", "intercept: [10.96.0.10]", nil, []netip.Addr{addr("10.96.0.10")}, nil},
		{"an upstream", "intercept: [10.0.0.2, 10.96.0.10]", nil, []netip.Addr{addr("10.96.0.10")}, []string{problem}},
		{"the nameserver of a domain", "intercept: [10.0.0.9]\nroutes: [{domain: corp.test, servers: [10.0.0.9]}]", nil, nil, []string{"not intercepting 10.0.0.9: it is an upstream (routes /etc/node-dns/node-dns.yaml:3) that this node must reach"}},
		{"the cluster's nameserver", "intercept: clusterDNS\nclusterDNS: [10.0.0.9]", nil, []netip.Addr{addr("10.0.0.9")}, nil},
		{
			"an upstream that the helper has made local", "intercept: [10.0.0.2]",
			func(in *Inputs) {
				in.Net.Addrs = append(in.Net.Addrs, netstate.Addr{Addr: addr("10.0.0.2"), Interface: "node-dns", Up: true})
			},
			nil,
			[]string{problem, "ignoring 10.0.0.2 (NetworkManager eth0): it is this node and would loop"},
		},
		{
			"an upstream that the API knows as the cluster's DNS Service", "intercept: clusterDNS",
			func(in *Inputs) { in.DNSService.Addrs = []netip.Addr{addr("10.0.0.2")} },
			[]netip.Addr{addr("10.0.0.2")},
			nil,
		},
		{
			"the cluster's DNS Service is intercepted, and no pod of it is ready", "intercept: clusterDNS",
			func(in *Inputs) {
				in.DNSService.Addrs = []netip.Addr{addr("10.0.0.2")}
				in.Net.Addrs = append(in.Net.Addrs, netstate.Addr{Addr: addr("10.0.0.2"), Interface: "node-dns", Up: true})
			},
			[]netip.Addr{addr("10.0.0.2")},
			[]string{"ignoring 10.0.0.2 (NetworkManager eth0): it is this node and would loop"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := Inputs{
				Config: policytest.Config(t, "kubeconfig: /k\n"+test.nodeDNS+"\n", ""), Net: policytest.Node(),
				Captured: upstream.Set{Servers: policytest.Servers("10.0.0.2", "10.0.0.3")}, From: nameserver.NetworkManager, Origin: "NetworkManager eth0",
			}
			if test.change != nil {
				test.change(&in)
			}
			p := New(in)
			if !slices.Equal(p.Intercept, test.want) {
				t.Errorf("got %v to intercept, want %v", p.Intercept, test.want)
			}
			if diff := cmp.Diff(test.problems, p.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInterceptRequest: the helper translates all addresses if one is NodeLocal DNSCache's own.
func TestInterceptRequest(t *testing.T) {
	for _, test := range []struct{ setting, want string }{
		{"clusterDNS", "intercept fd00:10:96::a"},
		{"fd00::10", "intercept fd00::10"},
		{"169.254.20.10", "translate 169.254.20.10"},
		{"[clusterDNS, 'fd00::10']", "translate fd00::10\ntranslate fd00:10:96::a"},
	} {
		in := Inputs{Config: policytest.Config(t, "kubeconfig: /k\nlisten: 10.0.0.5:5353\nintercept: "+test.setting+"\n", ""), Net: policytest.Node(), DNSService: DNSService{Addrs: []netip.Addr{netip.MustParseAddr("fd00:10:96::a")}}}
		got := string(New(in).InterceptRequest().Format())
		if _, got, _ = strings.Cut(got, "\n"); got != test.want+"\n" {
			t.Errorf("intercept: %s: got %q, want %q", test.setting, got, test.want)
		}
	}
}

// TestServiceAsUpstream: a source names the cluster's DNS Service, queries to which are
// intercepted. The pods of the Service are queried instead, before and while the address is
// intercepted: a query to the Service would come back.
func TestServiceAsUpstream(t *testing.T) {
	service, pod := netip.MustParseAddr("10.96.0.10"), policytest.Servers("10.244.1.53")
	const note = "10.96.0.10 (%s) is the cluster's DNS Service, queries to which are intercepted: its pods are queried instead"
	for _, test := range []struct {
		name, nodeDNS, upstream string
		want                    string // the routes outside of the cluster's zone
		from                    string // the source in the note; empty if there is no note
	}{
		{"the node's nameserver", "intercept: clusterDNS", "10.96.0.10", ".=10.244.1.53", "resolv.conf"},
		{"upstreams", "intercept: clusterDNS\nupstreams: [10.0.0.2, 10.96.0.10, 10.0.0.3]", "10.0.0.9", ".=10.0.0.2,10.244.1.53,10.0.0.3", "upstreams /etc/node-dns/node-dns.yaml:3"},
		{"a route", "intercept: clusterDNS\nroutes: [{domain: corp.test, servers: [10.96.0.10]}]", "10.0.0.9", "corp.test.=10.244.1.53 .=10.0.0.9", "routes /etc/node-dns/node-dns.yaml:3"},
		{"Cilium", "intercept: cilium", "10.96.0.10", ".=10.244.1.53", "resolv.conf"},
		{"another port", "intercept: clusterDNS\nupstreams: ['10.96.0.10:5353']", "10.0.0.9", ".=10.96.0.10:5353", ""},
		{"without interception", "intercept: none", "10.96.0.10", ".=10.96.0.10", ""},
	} {
		for _, isLocal := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, local: %v", test.name, isLocal), func(t *testing.T) {
				in := Inputs{
					Config: policytest.Config(t, "kubeconfig: /k\n"+test.nodeDNS+"\n", ""), Net: policytest.Node(), DNSService: DNSService{Addrs: []netip.Addr{service}, Pods: pod},
					Captured: upstream.Set{Servers: policytest.Servers(test.upstream)}, From: nameserver.ResolvConf,
				}
				if isLocal = isLocal && !strings.HasPrefix(test.nodeDNS, "intercept: none"); isLocal {
					in.Net.Addrs = append(in.Net.Addrs, netstate.Addr{Addr: service, Interface: "node-dns", Up: true})
				}
				p := New(in)
				if got := policytest.RouteText(p.Routes); got != test.want {
					t.Errorf("routes %q, want %q", got, test.want)
				}
				var notes []string
				if test.from != "" {
					notes = []string{fmt.Sprintf(note, test.from)}
				}
				if d := cmp.Diff(notes, p.Notes); d != "" {
					t.Errorf("notes (-want +got):\n%s", d)
				}
				if len(p.Problems) > 0 {
					t.Errorf("problems %q", p.Problems)
				}
			})
		}
	}
}

// TestServiceForClusterNames: a source names the cluster's DNS Service for the cluster's own names.
// Its pods do not replace it: node-dns answers these names once the address is local.
func TestServiceForClusterNames(t *testing.T) {
	service := netip.MustParseAddr("10.96.0.10")
	bus := []dnsmasqconf.Rule{{Domain: dnsname.MustParse("svc.cluster.local"), Server: policytest.Servers("10.96.0.10")[0]}}
	for _, test := range []struct {
		name, nodeDNS string
		rules         []dnsmasqconf.Rule
		isLocal       bool
		want          string
	}{
		{"D-Bus", "", bus, false, "svc.cluster.local.=10.96.0.10"},
		{"D-Bus, local", "", bus, true, ""},
		{"clusterDNS", "clusterDNS: [10.96.0.10]\n", nil, false, "cluster.local.=10.96.0.10"},
		{"clusterDNS, local", "clusterDNS: [10.96.0.10]\n", nil, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := Inputs{
				Config: policytest.Config(t, "kubeconfig: /k\nintercept: clusterDNS\nserviceCIDRs: []\n"+test.nodeDNS, ""), Net: policytest.Node(),
				DNSService: DNSService{Addrs: []netip.Addr{service}, Pods: policytest.Servers("10.244.1.53")}, Bus: Bus{Rules: test.rules},
			}
			if test.isLocal {
				in.Net.Addrs = append(in.Net.Addrs, netstate.Addr{Addr: service, Interface: "node-dns", Up: true})
			}
			if got := policytest.RouteText(New(in).Routes); got != test.want {
				t.Errorf("routes %q, want %q", got, test.want)
			}
		})
	}
}

// TestRedirected: with `intercept: cilium`, a query to the cluster's DNS Service would come back to
// this pod. Nothing is requested from the helper, and no address of the Service is bound.
func TestRedirected(t *testing.T) {
	service := netip.MustParseAddr("10.96.0.10")
	for _, test := range []struct {
		name, nodeDNS string
		service       []netip.Addr
		want          []netip.Addr
		problems      []string
	}{
		{"the node's nameserver is another one", "kubeconfig: /k\nintercept: cilium\n", []netip.Addr{service}, []netip.Addr{service}, nil},
		{"before the API is known", "kubeconfig: /k\nintercept: cilium\n", nil, nil, nil},
		{"without the API", "kubeconfig: none\nintercept: cilium\n", []netip.Addr{service}, nil, []string{"intercept /etc/node-dns/node-dns.yaml:2: requires a Kubernetes API (see kubeconfig)"}},
		{"clusterDNS names the Service", "kubeconfig: /k\nintercept: cilium\nclusterDNS: [10.96.0.10]\n", []netip.Addr{service}, []netip.Addr{service}, []string{
			"ignoring 10.96.0.10 (clusterDNS /etc/node-dns/node-dns.yaml:3): it is this node and would loop",
		}},
		{"another port of the Service's address", "kubeconfig: /k\nintercept: cilium\nclusterDNS: ['10.96.0.10:5353']\n", []netip.Addr{service}, []netip.Addr{service}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := New(Inputs{
				Config: policytest.Config(t, test.nodeDNS, ""), Net: policytest.Node(), DNSService: DNSService{Addrs: test.service},
				Captured: upstream.Set{Servers: policytest.Servers("10.0.0.2")}, From: nameserver.NetworkManager,
			})
			if !slices.Equal(p.Redirected, test.want) || len(p.Intercept) > 0 {
				t.Errorf("got %v redirected and %v intercepted, want %v and none", p.Redirected, p.Intercept, test.want)
			}
			for _, at := range p.Listen {
				if at.Addr() == service {
					t.Errorf("listens on %v", at)
				}
			}
			if diff := cmp.Diff(test.problems, slices.Compact(p.Problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIsThisHost: only with Cilium, a link-local client is this host.
func TestIsThisHost(t *testing.T) {
	for _, test := range []struct {
		nodeDNS, client string
		want            bool
	}{
		{"intercept: none", "192.0.2.10", true},
		{"intercept: none", "10.244.1.7", false},
		{"intercept: none", "169.254.42.1", false},
		{"intercept: cilium", "192.0.2.10", true},
		{"intercept: cilium", "10.244.1.7", false},
		{"intercept: cilium", "169.254.42.1", true},
		{"intercept: cilium", "::ffff:169.254.42.1", true},
		{"intercept: cilium", "fe80::1", true},
	} {
		p := New(Inputs{Config: policytest.Config(t, "kubeconfig: /k\n"+test.nodeDNS+"\n", ""), Net: policytest.Node()})
		if got := p.IsThisHost(netip.MustParseAddr(test.client)); got != test.want {
			t.Errorf("%s, %s: got %v", test.nodeDNS, test.client, got)
		}
	}
}
