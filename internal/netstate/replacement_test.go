package netstate

import "testing"

func TestReplacement(t *testing.T) {
	for _, test := range []struct {
		name, link string
		want       Replacement
	}{
		{"Cilium", "cilium_host", Replacement{Name: Cilium, Link: "cilium_host"}},
		{"OVN-Kubernetes", "ovn-k8s-mp0", Replacement{Name: "OVN-Kubernetes", Link: "ovn-k8s-mp0", Always: true}},
		{"a bridge", "cni0", Replacement{}},
		{"OVN without Kubernetes", "ovn0", Replacement{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := State{Addrs: []Addr{{Addr: ip("10.0.0.7"), Interface: "eth0"}, {Addr: ip("10.128.0.2"), Interface: test.link}}}
			got, found := s.Replacement()
			if got != test.want || found != (test.want != Replacement{}) {
				t.Errorf("got %+v, %v, want %+v", got, found, test.want)
			}
		})
	}
}
