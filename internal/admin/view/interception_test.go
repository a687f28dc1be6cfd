package view

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/policy"
)

// TestInterceptedStatus: the status does not say that queries come here only because the helper's
// own queries do. OVN-Kubernetes translates the packets of pods, not those of the host.
func TestInterceptedStatus(t *testing.T) {
	addr := netip.MustParseAddr("10.96.0.10")
	on := &intercept.State{Owned: true, Addresses: []intercept.Address{{Address: addr, On: true, Mode: intercept.Local}}}
	other := &intercept.State{Addresses: []intercept.Address{{Address: addr, Why: "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1"}}}
	for _, test := range []struct {
		name, link string
		isUnknown  bool
		state      *intercept.State
		err        error
		want       string // text of a problem; "" means no problem
	}{
		{"works", "cni0", false, on, nil, ""},
		{"works beside Cilium and kube-proxy", "cilium_host", false, on, nil, ""},
		{"OVN-Kubernetes translates pods' packets", "ovn-k8s-mp0", false, on, nil, "pods' queries to 10.96.0.10 do not come to this node: OVN-Kubernetes translates the address in pods' packets"},
		{"OVN-Kubernetes, and no helper", "ovn-k8s-mp0", false, nil, nil, "OVN-Kubernetes translates"},
		{"OVN-Kubernetes, and an unknown cluster", "ovn-k8s-mp0", true, nil, nil, "OVN-Kubernetes translates"},
		{"Cilium translates in the socket", "cilium_host", false, other, nil, "CoreDNS-1.12.1, probably because Cilium replaces kube-proxy"},
		{"another nameserver answers", "cni0", false, other, nil, "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1"},
		{"the cluster is unknown", "cni0", true, on, nil, "the cluster's names are not known yet"},
		{"no helper", "cni0", false, nil, nil, "node-dns-intercept.service does not run"},
		{"an unreadable state", "cni0", false, nil, errors.New("permission denied"), "permission denied"},
		{"another state", "cni0", false, &intercept.State{}, nil, "node-dns-intercept.service has not tried it yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &policy.Policy{Intercept: []netip.Addr{addr}, Net: netstate.State{Addrs: []netstate.Addr{{Addr: netip.MustParseAddr("10.128.0.2"), Interface: test.link}}}}
			got := strings.Join(found(control.Status{Interception: intercepted(p, !test.isUnknown, test.state, test.err)}), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
