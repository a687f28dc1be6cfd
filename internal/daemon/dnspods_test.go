package daemon

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolve"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// TestOtherPodsAreNotProbed: other DNS pods cause no probes of all servers, which reach the root
// servers from each node.
func TestOtherPodsAreNotProbed(t *testing.T) {
	policyOf := func(upstream string, pods ...string) *policy.Policy {
		return policy.New(policy.Inputs{
			Config: policytest.Config(t, "kubeconfig: /k\nintercept: clusterDNS\nupstreams: ["+upstream+", 10.96.0.10]\n", ""), Net: policytest.Node(),
			DNSService: policy.DNSService{Addrs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Pods: policytest.Servers(pods...)},
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
			change := &change{old: policyOf("10.0.0.2", "10.244.1.53", "10.244.2.53"), next: test.next}
			synctest.Test(t, func(t *testing.T) {
				probes := 0 // one at the start
				f := &follower{Daemon: &Daemon{view: &view.View{Metrics: new(view.Metrics)}, loops: resolve.NewLoops()}}
				f.loops.Expect = func(dnsserver.IsOwn) {}
				go f.loops.Watch(t.Context(), func() []nameserver.Server { probes++; return nil }, nil)
				synctest.Wait()
				f.tellTasks(change)
				if synctest.Wait(); probes > 1 != test.want {
					t.Errorf("probes: %v, want %v", !test.want, test.want)
				}
			})
		})
	}
}
