// Package netstate reads the kernel's addresses and default routes as values.
//
// It is separate from package nm because the kernel, not NetworkManager, decides which route and
// which source address a packet gets. A node without NetworkManager also has a node IP. This is the
// only package that speaks rtnetlink(7).
package netstate

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Addr is one address of an interface.
type Addr struct {
	Addr      netip.Addr // with the interface as its zone if it is IPv6 link-local
	Interface string
	Index     int
	Bits      int // prefix length of its network (ip-address(8))
	// Up reports whether the interface is administratively up (IFF_UP), with or without carrier.
	Up bool
	// Tentative reports whether IPv6 duplicate address detection is running or has failed. bind(2)
	// then refuses the address.
	Tentative bool
	// Deprecated reports whether the preferred lifetime of the address is over (RFC 4862 section
	// 5.5.4).
	Deprecated bool
}

// DefaultRoute is the /0 route that a packet from this node takes.
type DefaultRoute struct {
	Interface string
	Index     int
	// Gateway is zero for a route that names only a device (tun, ppp). It is an IPv6 address for an
	// IPv4 route "via inet6" (RFC 5549). A link-local gateway has a zone.
	Gateway netip.Addr
	// Source is the node's own address for this route, of the route's family, or zero if no
	// interface has one. It is never link-local.
	Source netip.Addr
	Metric int
	Table  int
}

// State is the kernel's network state at one moment. It does not refer to the kernel, so it may be
// stored, compared and shared.
type State struct {
	Addrs              []Addr        // in the kernel's order
	Default4, Default6 *DefaultRoute // nil if there is none
	// OnLink are the destinations of all routes without a router, in all tables, in the kernel's
	// order.
	OnLink []OnLink
}

// OnLink is a network that is reached without a router.
type OnLink struct {
	Network   netip.Prefix
	Interface string // "" if the route names no interface
	Index     int    // 0 if the route names no interface
}

// NodeIP returns the node's address: the source of the IPv4 default route, else of the IPv6 one.
// Without a default route, as on an air-gapped node, it is the only global address, IPv4 before
// IPv6. Links of container runtimes do not count. If there are several, NodeIP returns the zero
// Addr.
func (s State) NodeIP() netip.Addr {
	for _, d := range []*DefaultRoute{s.Default4, s.Default6} {
		if d != nil && d.Source.IsValid() {
			return d.Source
		}
	}
	if s.Default4 != nil || s.Default6 != nil {
		return netip.Addr{}
	}
	for _, is4 := range []bool{true, false} {
		var found []netip.Addr
		for _, a := range s.Addrs {
			if a.Addr.Is4() == is4 && a.Up && !a.Tentative && a.Addr.IsGlobalUnicast() && !isContainerLink(a.Interface) {
				found = append(found, a.Addr)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0]
		default:
			return netip.Addr{}
		}
	}
	return netip.Addr{}
}

// IsLocal reports whether a packet to a would stay on this node: a is an address of an interface,
// or any loopback address. The zone of an IPv6 link-local address is the interface's name or
// number. Without a zone the address is local if any interface has it (RFC 4007 section 11.2).
func (s State) IsLocal(a netip.Addr) bool {
	a = a.Unmap()
	if a.IsLoopback() {
		return true
	}
	for _, have := range s.Addrs {
		if have.Addr.WithZone("") == a.WithZone("") && (a.Zone() == "" || a.Zone() == have.Interface || a.Zone() == strconv.Itoa(have.Index)) {
			return true
		}
	}
	return false
}

// IsService reports whether a is local only so that this node can answer for a Service: it is on
// the link of kube-proxy's IPVS mode or of node-dns-intercept, or it is one of asked and on the
// link of NodeLocal DNSCache or on lo, which the helper uses where the kernel has no dummy links.
// Such an address is not the node's own.
func (s State) IsService(a netip.Addr, asked []netip.Addr) bool {
	found := false
	for _, have := range s.Addrs {
		if have.Addr != a {
			continue
		}
		if !slices.Contains(serviceLinks, have.Interface) && (!slices.Contains(askedLinks, have.Interface) || !slices.Contains(asked, a)) {
			return false
		}
		found = true
	}
	return found
}

// ContainerBridges returns the addresses of interfaces such as docker0 and cni0, on which a
// container runtime or SDN reaches this node. Containers may use such an address as their
// nameserver, because dnsmasq listened there.
func (s State) ContainerBridges() []netip.Addr {
	var addrs []netip.Addr
	for _, have := range s.Addrs {
		if slices.Contains(containerBridges, have.Interface) && !have.Tentative && !have.Addr.IsLinkLocalUnicast() {
			addrs = append(addrs, have.Addr)
		}
	}
	return addrs
}

// DefaultInterface returns the interface of the IPv4 default route, else of the
// IPv6 one, else "".
func (s State) DefaultInterface() string {
	for _, d := range []*DefaultRoute{s.Default4, s.Default6} {
		if d != nil {
			return d.Interface
		}
	}
	return ""
}

// containerBridges are interfaces on which containers reach this node.
var containerBridges = []string{"docker0", "cni0", "cbr0", "lbr0", "tun0", ovnPort}

// serviceLinks hold addresses of Services.
var serviceLinks = []string{"kube-ipvs0", "node-dns"}

// askedLinks hold addresses that are not the node's own only if the configuration says so.
var askedLinks = []string{"lo", "nodelocaldns"}

// isContainerLink reports whether an interface is only for containers or virtual machines. The
// names used by cluster networks, podman and libvirt have a number or another suffix after these
// prefixes.
func isContainerLink(name string) bool {
	return slices.Contains(containerBridges, name) || slices.ContainsFunc([]string{"podman", "virbr", "flannel", "cilium_", "kube-", "nodelocaldns", "node-dns"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

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

// Replacement returns the network of this host that can replace kube-proxy, if there is one. Its
// link must have an address: after a reboot, the link of a removed network has none.
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

// Steady returns the network state now, corrected so that it does not stop the node's DNS. A
// look without any addresses has failed, for lack of file descriptors, and is ignored. When the
// default route disappears, the node IP stays as long as it is a local address. dnsmasq keeps its
// socket in that case too.
func Steady(before, now State) State {
	if len(now.Addrs) == 0 {
		return before
	}
	if node := before.NodeIP(); !now.NodeIP().IsValid() && node.IsValid() && now.IsLocal(node) {
		now.Default4, now.Default6 = before.Default4, before.Default6
		if !now.NodeIP().IsValid() { // the node IP was the only address and is no longer usable
			now.Default4 = &DefaultRoute{Source: node}
		}
	}
	return now
}
