package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/test/policytest"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestLeaveToPods: with interception, CoreDNS's pods resolve what node-dns cannot, never through
// the intercepted address.
func TestLeaveToPods(t *testing.T) {
	const chart = "kubeconfig: /k\nfromCluster: true\nresolvConf: none\nintercept: clusterDNS\n"
	corefile := clusterdns.Object{Kind: "ConfigMap", Namespace: "kube-system", Name: "coredns", Data: map[string]string{
		"Corefile": "corp.test {\nfile /etc/coredns/corp.db\n}\n",
	}}
	const unfollowed = `ConfigMap kube-system/coredns Corefile:2 is not followed: node-dns has no equivalent of plugin "file"`
	service := netip.MustParseAddr("10.96.0.10")
	pods := policytest.Servers("10.244.1.53", "10.244.2.53:5353")
	for _, test := range []struct {
		name, nodeDNS string
		change        func(*Inputs)
		routes        string
		notes         []string
		problems      []string
	}{
		{"the chart", chart, nil, "corp.test.=10.244.1.53,10.244.2.53:5353 .=10.0.0.2", nil, nil},
		{"Cilium", strings.Replace(chart, "clusterDNS", "cilium", 1), nil, "corp.test.=10.244.1.53,10.244.2.53:5353 .=10.0.0.2", nil, nil},
		{"without interception", strings.Replace(chart, "clusterDNS", "none", 1), nil, ".=10.0.0.2", []string{unfollowed}, nil},
		{"/etc/resolv.conf names this node", strings.Replace(chart, "resolvConf: none\n", "", 1), nil, ".=10.0.0.2", []string{unfollowed}, nil},
		{"no pod is ready", chart, func(in *Inputs) { in.DNSService.Pods = nil }, "corp.test.= .=10.0.0.2", nil, []string{
			"ConfigMap kube-system/coredns Corefile:1: no pod of the cluster's DNS is ready to resolve corp.test.",
		}},
		{"a Service with another name", chart, func(in *Inputs) { in.DNSService = DNSService{IsKnown: true} }, ".=10.0.0.2", []string{unfollowed}, nil},
		{"a Service in another namespace", chart, func(in *Inputs) { in.DNSService.Namespace = "openshift-dns" }, ".=10.0.0.2", []string{unfollowed}, nil},
		{"the cluster is not known yet", chart, func(in *Inputs) { in.DNSService = DNSService{} }, "corp.test.= .=10.0.0.2", nil, nil},
		{"a pod that sends queries back", chart, func(in *Inputs) { in.Looping = map[nameserver.Server]struct{}{pods[0]: {}} }, "corp.test.=10.244.2.53:5353 .=10.0.0.2", nil, []string{
			"ignoring 10.244.1.53 (ConfigMap kube-system/coredns Corefile:1): it sends queries back to this node",
		}},
		{"the admin's own route", chart + "routes: [{domain: corp.test, servers: [10.0.0.9]}]\n", nil, "corp.test.=10.0.0.9 .=10.0.0.2", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := Inputs{
				Config: policytest.Config(t, test.nodeDNS, ""), Net: policytest.Node(), Hostname: "node-1",
				DNSService: DNSService{IsKnown: true, Addrs: []netip.Addr{service}, Namespace: "kube-system", Pods: pods},
				Captured:   upstream.Set{Servers: policytest.Servers("10.0.0.2")}, From: nameserver.ResolvConf,
				OwnDNS: &FromCluster{Settings: cluster.Settings{Objects: []clusterdns.Object{corefile}}},
			}
			if test.change != nil {
				test.change(&in)
			}
			p := New(in)
			for i := range p.Routes {
				slices.SortFunc(p.Routes[i].Servers, func(a, b nameserver.Server) int { return a.Addr.Compare(b.Addr) })
			}
			if got := policytest.RouteText(p.Routes); got != test.routes {
				t.Errorf("routes %q, want %q", got, test.routes)
			}
			if d := cmp.Diff(test.notes, p.Notes); d != "" {
				t.Errorf("notes (-want +got):\n%s", d)
			}
			if d := cmp.Diff(test.problems, p.Problems); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

// TestDNSPods: the DNS pods are the ready endpoints of the Service, at the port behind its port 53.
func TestDNSPods(t *testing.T) {
	addr := netip.MustParseAddr
	udp, tcp, metrics := zone.Port{Name: "dns", Number: 53, Protocol: zone.UDP}, zone.Port{Name: "dns-tcp", Number: 53}, zone.Port{Name: "metrics", Number: 9153}
	service := zone.Service{Key: zone.Key{Namespace: "openshift-dns", Name: "dns-default"}, ClusterIPs: []netip.Addr{addr("172.30.0.10"), addr("fd00::a")}, Ports: []zone.Port{metrics, tcp, udp}}
	ready := func(text string) zone.Endpoint { return zone.Endpoint{Addr: addr(text), Ready: true} }
	slice := func(name, service string, ports []zone.Port, endpoints ...zone.Endpoint) *zone.Slice {
		return &zone.Slice{Key: zone.Key{Namespace: "openshift-dns", Name: name}, Service: service, Ports: ports, Endpoints: endpoints}
	}
	target := zone.Port{Name: "dns", Number: 5353, Protocol: zone.UDP}
	for _, test := range []struct {
		name   string
		ports  []zone.Port // of the Service
		slices []*zone.Slice
		want   []nameserver.Server
	}{
		{"no slice", service.Ports, nil, nil},
		{"another port than the Service's", service.Ports, []*zone.Slice{slice("a", "dns-default", []zone.Port{metrics, {Name: "dns-tcp", Number: 5353}, target}, ready("10.128.0.2"))}, policytest.Servers("10.128.0.2:5353")},
		{"two slices", service.Ports, []*zone.Slice{
			slice("b", "dns-default", []zone.Port{target}, ready("10.128.0.4")), slice("a", "dns-default", []zone.Port{udp}, ready("10.128.0.2"), ready("10.128.0.3")),
		}, policytest.Servers("10.128.0.2", "10.128.0.3", "10.128.0.4:5353")},
		{"not ready", service.Ports, []*zone.Slice{slice("a", "dns-default", []zone.Port{target}, zone.Endpoint{Addr: addr("10.128.0.2")}, ready("10.128.0.3"))}, policytest.Servers("10.128.0.3:5353")},
		{"of the other family", service.Ports, []*zone.Slice{slice("a", "dns-default", []zone.Port{target}, ready("fd01::2"))}, nil},
		{"of another Service", service.Ports, []*zone.Slice{slice("a", "router", []zone.Port{target}, ready("10.128.0.2"))}, nil},
		{"without the port", service.Ports, []*zone.Slice{slice("a", "dns-default", []zone.Port{metrics}, ready("10.128.0.2"))}, nil},
		{"a Service without port 53", []zone.Port{metrics}, []*zone.Slice{slice("a", "dns-default", []zone.Port{target}, ready("10.128.0.2"))}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, s := new(zone.Builder), service
			s.Ports = test.ports
			b.SetService(&s)
			for _, slice := range test.slices {
				b.SetSlice(slice)
			}
			if got := NewDNSService(b.Snapshot(time.Unix(0, 0))).Pods; !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if got := NewDNSService(nil); got.Pods != nil || got.IsKnown {
		t.Errorf("before the cluster is known: %v", got)
	}
}

// TestOtherPods: the daemon looks again only if a route uses DNS pods and this node would query
// others. Ready pods that it does not query, their order, and a Service without a ready pod change
// nothing.
func TestOtherPods(t *testing.T) {
	service := zone.Service{
		Key: zone.Key{Namespace: "kube-system", Name: "kube-dns"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Ports: []zone.Port{{Name: "dns", Number: 53, Protocol: zone.UDP}},
	}
	snapshot := func(pods []nameserver.Server) *zone.Snapshot {
		b, slice := new(zone.Builder), &zone.Slice{Key: zone.Key{Namespace: "kube-system", Name: "a"}, Service: "kube-dns", Ports: service.Ports}
		for _, s := range pods {
			slice.Endpoints = append(slice.Endpoints, zone.Endpoint{Addr: s.Addr.Addr(), Ready: true})
		}
		b.SetService(&service)
		b.SetSlice(slice)
		return b.Snapshot(time.Unix(0, 0))
	}
	pods := policytest.Servers("10.244.1.53", "10.244.2.53", "10.244.3.53", "10.244.4.53", "10.244.5.53")
	chosen := choosePods(pods, "node-1")
	isChosen := func(s nameserver.Server) bool { return slices.Contains(chosen, s) }
	reversed := slices.Clone(pods)
	slices.Reverse(reversed)
	for _, test := range []struct {
		name, upstream string
		pods           []nameserver.Server
		want           bool
	}{
		{"the same", "10.96.0.10", pods, false},
		{"another order", "10.96.0.10", reversed, false},
		{"fewer that this node does not query", "10.96.0.10", chosen, false},
		{"none is ready", "10.96.0.10", nil, false},
		{"others that this node queries", "10.96.0.10", slices.DeleteFunc(slices.Clone(pods), isChosen), true},
		{"others, which no route uses", "10.0.0.2", slices.DeleteFunc(slices.Clone(pods), isChosen), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := Inputs{
				Config: policytest.Config(t, "kubeconfig: /k\nintercept: clusterDNS\nupstreams: [10.0.0.3, "+test.upstream+"]\n", ""), Net: policytest.Node(),
				Hostname: "node-1", DNSService: DNSService{Addrs: service.ClusterIPs, Pods: pods},
			}
			if got := New(in).HasOtherPods(snapshot(test.pods)); got != test.want {
				t.Errorf("other pods: %v, want %v", got, test.want)
			}
		})
	}
}

// TestChoosePods: nodes spread their queries over all DNS pods, and when one goes away, only the
// nodes that use it choose again.
func TestChoosePods(t *testing.T) {
	const nodes = 300
	var pods []nameserver.Server
	for i := range 10 {
		pods = append(pods, nameserver.MustParse(fmt.Sprintf("10.244.%d.53", i)))
	}
	use := map[nameserver.Server]int{}
	for i := range nodes {
		node := fmt.Sprintf("node-%d.example.com", i)
		chosen := choosePods(pods, node)
		for _, s := range chosen[:1] {
			use[s]++
		}
		fewer := choosePods(pods[1:], node)
		for _, s := range chosen {
			if s != pods[0] && !slices.Contains(fewer, s) {
				t.Errorf("%s gives up %v because another one is gone", node, s)
			}
		}
		if len(chosen) != maxDNSPods || len(fewer) != maxDNSPods {
			t.Errorf("%s has %v, and %v", node, chosen, fewer)
		}
	}
	for _, s := range pods {
		if n := use[s]; n < nodes/len(pods)/3 || n > 3*nodes/len(pods) {
			t.Errorf("%v is the first of %d of %d nodes", s, n, nodes)
		}
	}
}

// TestSteadyDNS: the last ready DNS pods stay while their Service exists.
func TestSteadyDNS(t *testing.T) {
	service, other := []netip.Addr{netip.MustParseAddr("10.96.0.10")}, []netip.Addr{netip.MustParseAddr("10.96.0.11")}
	pods, others := policytest.Servers("10.244.1.53"), policytest.Servers("10.244.2.53")
	ready := DNSService{Addrs: service, Pods: pods}
	for _, test := range []struct {
		name        string
		before, now DNSService
		want        []nameserver.Server
	}{
		{"the first pods", DNSService{}, ready, pods},
		{"other pods", ready, DNSService{Addrs: service, Pods: others}, others},
		{"none is ready", ready, DNSService{Addrs: service}, pods},
		{"none was ever ready", DNSService{Addrs: service}, DNSService{Addrs: service}, nil},
		{"another Service", ready, DNSService{Addrs: other}, nil},
		{"no Service", ready, DNSService{}, nil},
	} {
		got := test.now.Steady(test.before)
		if !slices.Equal(got.Pods, test.want) || !slices.Equal(got.Addrs, test.now.Addrs) {
			t.Errorf("%s: %v, want the pods %v", test.name, got, test.want)
		}
	}
}
