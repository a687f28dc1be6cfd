package firewall

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/netstate"
)

// Link is an interface on which clients' packets arrive, with one of their networks.
type Link struct {
	Interface string
	Index     int
	Clients   netip.Prefix
	Source    netip.Addr // address of one client
	kind      linkKind
}

// linkKind is the reason to expect clients on a link.
type linkKind int

const (
	ofPods  linkKind = iota // in podCIDRs, or an interface of a network plugin
	ofAllow                 // in allowFrom
	guessed                 // another private network of this host
)

// IsPods reports whether the clients are pods, according to podCIDRs or the name of the interface.
func (l Link) IsPods() bool { return l.kind == ofPods }

// podInterfaces are prefixes of the names of interfaces on which network plugins deliver pods'
// packets. OpenShift SDN's tun0 is not listed, because VPNs use the same name; podCIDRs identifies
// it.
var podInterfaces = []string{
	"antrea-gw", "cali", "cbr0", "cilium_host", "cni", "docker0", "kube-bridge", "lbr0", "lxc", "ovn-k8s-mp", "veth", "weave",
}

// private are the networks that are not routed on the internet (RFC 1918, RFC 6598, RFC 4193).
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fc00::/7"),
}

// maxLinks limits the links that are checked. Some network plugins create one for each pod.
const maxLinks = 512

// Links returns the links on which clients' packets arrive: those in podCIDRs, or if that is empty,
// those of network plugins, or else those with private networks. Links in allowFrom are added.
func (n Nameserver) Links() []Link {
	var pods, allowed, others []Link
	for _, l := range n.networks() {
		switch {
		case n.isPods(l):
			l.kind = ofPods
			pods = append(pods, l)
		case n.isAllowed(l.Clients):
			l.kind = ofAllow
			allowed = append(allowed, l)
		case len(n.PodCIDRs) == 0 && (n.AllowFrom.Local || n.AllowFrom.All) && within(l.Clients, private) && !n.isOutside(l.Interface):
			l.kind = guessed
			others = append(others, l)
		}
	}
	all := slices.Concat(pods, allowed, n.behindRouters())
	if len(pods) == 0 {
		all = append(all, others...)
	}
	return all[:min(len(all), maxLinks)]
}

// networks returns the networks that are reached without a router, each with a client's address.
func (n Nameserver) networks() []Link {
	var all []Link
	add := func(name string, index int, network netip.Prefix) {
		a := network.Addr()
		source, ok := n.client(network)
		same := slices.ContainsFunc(all, func(l Link) bool { return l.Interface == name && l.Clients == network })
		if ok && !same && name != "" && name != "lo" && !a.IsLinkLocalUnicast() && !a.IsMulticast() {
			all = append(all, Link{Interface: name, Index: index, Clients: network, Source: source})
		}
	}
	for _, a := range n.Net.Addrs {
		network := netip.PrefixFrom(a.Addr.WithZone(""), a.Bits).Masked()
		if network.IsSingleIP() && slices.ContainsFunc(podInterfaces, func(p string) bool { return strings.HasPrefix(a.Interface, p) }) {
			network = n.around(network) // Cilium's interface has a single address
		}
		if a.Up {
			add(a.Interface, a.Index, network)
		}
	}
	for _, direct := range n.Net.OnLink {
		add(direct.Interface, direct.Index, direct.Network)
	}
	return all
}

// around returns the member of podCIDRs that contains an address, or else the address.
func (n Nameserver) around(address netip.Prefix) netip.Prefix {
	for _, p := range n.PodCIDRs {
		if p.Contains(address.Addr()) {
			return p
		}
	}
	return address
}

// client returns an address in a network that is not this host's. ok is false if there is none.
func (n Nameserver) client(network netip.Prefix) (netip.Addr, bool) {
	a := network.Addr()
	if !network.IsSingleIP() {
		a = a.Next() // the first address names the network
	}
	for network.Contains(a) && n.isOwn(a) {
		a = a.Next()
	}
	return a, network.Contains(a)
}

func (n Nameserver) isOwn(a netip.Addr) bool {
	return slices.ContainsFunc(n.Net.Addrs, func(own netstate.Addr) bool { return own.Addr.WithZone("") == a })
}

func (n Nameserver) isPods(l Link) bool {
	if within(l.Clients, n.PodCIDRs) {
		return true
	}
	return len(n.PodCIDRs) == 0 && slices.ContainsFunc(podInterfaces, func(p string) bool { return strings.HasPrefix(l.Interface, p) })
}

// isAllowed reports whether allowFrom contains a part of a network.
func (n Nameserver) isAllowed(network netip.Prefix) bool {
	return slices.ContainsFunc(n.AllowFrom.Networks, network.Overlaps)
}

// behindRouters returns the networks in allowFrom that no interface has. Their packets arrive on
// the interface of the default route.
func (n Nameserver) behindRouters() []Link {
	var all []Link
	near := n.networks()
	for _, network := range n.AllowFrom.Networks {
		network = network.Masked()
		route := n.Net.Default4
		if network.Addr().Is6() {
			route = n.Net.Default6
		}
		isNear := slices.ContainsFunc(near, func(l Link) bool { return l.Clients.Overlaps(network) })
		source, ok := n.client(network)
		if route != nil && ok && !isNear && !network.Addr().IsLoopback() {
			all = append(all, Link{Interface: route.Interface, Index: route.Index, Clients: network, Source: source, kind: ofAllow})
		}
	}
	return all
}

// isOutside reports whether an interface has a default route.
func (n Nameserver) isOutside(name string) bool {
	return n.Net.DefaultInterface() == name || n.Net.Default6 != nil && n.Net.Default6.Interface == name
}

// within reports whether a member of the list contains the network.
func within(network netip.Prefix, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Bits() <= network.Bits() && p.Contains(network.Addr()) })
}
