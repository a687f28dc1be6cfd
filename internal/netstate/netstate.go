// Package netstate reads the kernel's addresses and default routes as values.
//
// It is apart from package nm because the kernel, not NetworkManager, decides
// which route and which source address a packet gets: a node managed by
// something else, or by nothing, has a node IP too. It is the only package that
// speaks rtnetlink(7).
package netstate

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Addr is one address of an interface.
type Addr struct {
	Addr      netip.Addr // with the interface as its zone when it is IPv6 link-local
	Interface string
	Index     int
	Bits      int // how long the prefix of its network is (ip-address(8))
	// Up says that the interface is administratively up (IFF_UP), with or
	// without carrier.
	Up bool
	// Tentative: IPv6 duplicate address detection runs or has failed; bind(2)
	// refuses the address.
	Tentative bool
	// Deprecated: the preferred lifetime of the address is over (RFC 4862
	// section 5.5.4).
	Deprecated bool
}

// DefaultRoute is the /0 route that a packet from this node takes.
type DefaultRoute struct {
	Interface string
	Index     int
	// Gateway is zero for a route that names only a device (tun, ppp). It is an
	// IPv6 address on an IPv4 route "via inet6" (RFC 5549), and has a zone when
	// it is link-local.
	Gateway netip.Addr
	// Source is the node's own address on this route, of the route's family;
	// zero when no interface has one. It is never link-local.
	Source netip.Addr
	Metric int
	Table  int
}

// State is what the kernel knew at one moment. It holds no reference to the
// kernel: it may be kept, compared and shared.
type State struct {
	Addrs              []Addr        // in the kernel's order
	Default4, Default6 *DefaultRoute // nil: none
	// OnLink are the networks that routes without a router lead to, of every table, in the kernel's order.
	OnLink []OnLink
}

// OnLink is a network that is reached without a router.
type OnLink struct {
	Network   netip.Prefix
	Interface string // "" if the route names no interface
	Index     int    // 0 if the route names no interface
}

// NodeIP returns the node's address: the source of the IPv4 default route, else
// of the IPv6 one. Without a default route it is the only global address, IPv4
// before IPv6: an air-gapped node has no route. Those of the links that container
// runtimes make do not count. Of several none is chosen, and the zero Addr is
// returned.
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

// IsLocal reports whether a packet to a would stay on this node: a is an
// address of an interface, or any loopback address. The zone of an IPv6
// link-local address is the interface's name or its number; without a zone it
// is local when any interface has it (RFC 4007 section 11.2).
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

// ContainerBridges returns the addresses of the interfaces on which a container runtime or SDN reaches this node: docker0, cni0
// and their like. The containers behind them may have such an address as their nameserver, as dnsmasq listened there.
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
var containerBridges = []string{"docker0", "cni0", "cbr0", "lbr0", "tun0", "ovn-k8s-mp0"}

// isContainerLink reports whether an interface is there for containers or virtual machines alone: those that cluster networks, podman and
// libvirt make have numbers or further words behind these.
func isContainerLink(name string) bool {
	return slices.Contains(containerBridges, name) || slices.ContainsFunc([]string{"podman", "virbr", "flannel", "cilium_", "kube-", "nodelocaldns"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}
