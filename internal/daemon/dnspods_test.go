package daemon

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// TestSteadyDNS: the last ready DNS pods stay while their Service exists.
func TestSteadyDNS(t *testing.T) {
	service, other := []netip.Addr{netip.MustParseAddr("10.96.0.10")}, []netip.Addr{netip.MustParseAddr("10.96.0.11")}
	pods, others := policytest.Servers("10.244.1.53"), policytest.Servers("10.244.2.53")
	ready := clusterDNS{service: service, pods: pods}
	for _, test := range []struct {
		name        string
		before, now clusterDNS
		want        []nameserver.Server
	}{
		{"the first pods", clusterDNS{}, ready, pods},
		{"other pods", ready, clusterDNS{service: service, pods: others}, others},
		{"none is ready", ready, clusterDNS{service: service}, pods},
		{"none was ever ready", clusterDNS{service: service}, clusterDNS{service: service}, nil},
		{"another Service", ready, clusterDNS{service: other}, nil},
		{"no Service", ready, clusterDNS{}, nil},
	} {
		got := steadyDNS(test.before, test.now)
		if !slices.Equal(got.pods, test.want) || !slices.Equal(got.service, test.now.service) {
			t.Errorf("%s: %v, want the pods %v", test.name, got, test.want)
		}
	}
}

// TestOtherPodsAreNotProbed: other DNS pods cause no probes of all servers, which reach the root
// servers from each node.
func TestOtherPodsAreNotProbed(t *testing.T) {
	policyOf := func(upstream string, pods ...string) *policy.Policy {
		return policy.New(policy.Inputs{
			Config: policytest.Config(t, "kubeconfig: /k\nintercept: clusterDNS\nupstreams: ["+upstream+", 10.96.0.10]\n", ""), Net: policytest.Node(),
			DNSService: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, DNSPods: policytest.Servers(pods...),
		})
	}
	for _, test := range []struct {
		name string
		next *policy.Policy
		want bool
	}{
		{"another pod", policyOf("10.0.0.2", "10.244.1.53", "10.244.3.53"), false},
		{"one pod fewer", policyOf("10.0.0.2", "10.244.1.53"), false},
		{"another server", policyOf("10.0.0.3", "10.244.1.53", "10.244.2.53"), true},
		{"no pod any more", policyOf("10.0.0.2"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &follower{Daemon: &Daemon{view: &view.View{Metrics: new(view.Metrics)}, rewatch: make(chan struct{}, 1), rerouted: make(chan struct{}, 1)}}
			f.tellTasks(&change{old: policyOf("10.0.0.2", "10.244.1.53", "10.244.2.53"), next: test.next})
			if got := len(f.rerouted) > 0; got != test.want {
				t.Errorf("probes: %v, want %v", got, test.want)
			}
		})
	}
}
