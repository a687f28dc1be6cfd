package netstate

import "strings"

// Cilium is the Name of a Replacement.
const Cilium = "Cilium"

// Replacement is a cluster network that can replace kube-proxy. It then translates the address of a
// Service before the rules of this host see a pod's packet.
type Replacement struct {
	Name string
	Link string // its link on this host
	// Always reports whether it translates beside kube-proxy, too.
	Always bool
}

// Replacement returns the network of this host that can replace kube-proxy, if there is one. It goes
// by links with an address, which the network's program sets when it starts: the link of one that was
// removed is without it after a boot.
func (s State) Replacement() (r Replacement, found bool) {
	for _, have := range s.Addrs {
		switch {
		case strings.HasPrefix(have.Interface, "cilium_"):
			return Replacement{Name: Cilium, Link: have.Interface}, true
		case have.Interface == ovnPort:
			return Replacement{Name: "OVN-Kubernetes", Link: have.Interface, Always: true}, true
		}
	}
	return Replacement{}, false
}

// ovnPort is the management port of OVN-Kubernetes. OVN's load balancer is on the logical switch of
// the pods, before the packets come to this port.
const ovnPort = "ovn-k8s-mp0"
