package policy

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Access says which clients may query, and at which addresses. An open resolver can be used to
// attack others.
type Access struct {
	Server   *dnsserver.Access
	From     []string       // allowFrom as written
	Networks []netip.Prefix // the networks of From: sorted, none inside another; empty if From is everyone or only this host

	listen []netip.AddrPort // the addresses of clusterListen that are not served otherwise
}

// newAccess opens the addresses of clusterListen to the networks of pods, services and
// clusterClients, because these addresses may be reachable from more networks than the node IP
// (0.0.0.0:8053 on OpenShift's masters). It opens all other addresses to allowFrom. open are the
// addresses that are served anyway: clusterListen does not change them. This host may always query.
func newAccess(config nodeconfig.Config, open []netip.AddrPort, net netstate.State) Access {
	host := hostNetworks(net.Addrs)
	a := Access{Server: &dnsserver.Access{Host: dnsserver.NewNetworks(host), Rate: config.ClientRateLimit}, From: []string{}}
	if allow := config.AllowFrom; allow.All {
		a.From = []string{"all"}
	} else {
		if allow.Local {
			a.From = []string{"local"}
			a.Networks = localNetworks(config, net)
		}
		for _, p := range allow.Networks {
			a.From = append(a.From, p.String())
		}
		a.Networks = sortedNetworks(slices.Concat(allow.Networks, a.Networks))
		a.Server.Clients = dnsserver.NewNetworks(slices.Concat(host, a.Networks))
	}
	for _, at := range config.Resolver.Listen {
		for _, addr := range spelledOut(at, net.Addrs) {
			if !slices.Contains(open, addr) && !slices.Contains(a.listen, addr) {
				a.listen = append(a.listen, addr)
			}
		}
	}
	if len(a.listen) > 0 {
		cluster := dnsserver.NewNetworks(slices.Concat(host, config.PodCIDRs, config.ServiceCIDRs, config.Resolver.Clients))
		a.Server.At = map[netip.AddrPort]*dnsserver.Networks{}
		for _, at := range a.listen {
			a.Server.At[at] = cluster
		}
	}
	return a
}

// hostNetworks returns the addresses that only this host uses as a source.
func hostNetworks(addrs []netstate.Addr) []netip.Prefix {
	host := slices.Clone(loopback)
	for _, a := range addrs {
		host = append(host, single(a.Addr))
	}
	return host
}

func single(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen())
}

var (
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	// linkLocal never passes a router: RFC 3927 section 2.7, RFC 4291 section 2.5.6.
	linkLocal = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}
	// private never comes from the internet: RFC 1918, RFC 6598, RFC 4193.
	private = []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fc00::/7"),
	}
)

// The minimum prefix lengths of local networks. VPNs install very wide routes, such as 0.0.0.0/1.
const (
	leastBits4 = 8
	leastBits6 = 16
)

// localNetworks returns the local networks: the cluster's, and those that this host reaches without
// a router, like dnsmasq's local-service and BIND's localnets. With a bridge, or with a route for
// each pod, they include the pods, but with an overlay network they may not. So if the
// configuration does not name the pods' networks, all private networks are local.
func localNetworks(config nodeconfig.Config, net netstate.State) []netip.Prefix {
	near := slices.Concat(linkLocal, config.PodCIDRs, config.ServiceCIDRs)
	if len(config.PodCIDRs) == 0 {
		near = append(near, private...)
	}
	var onLink []netip.Prefix
	for _, direct := range net.OnLink {
		onLink = append(onLink, direct.Network)
	}
	for _, a := range net.Addrs {
		if p, err := a.Addr.WithZone("").Prefix(a.Bits); err == nil && a.Up && a.Interface != "lo" {
			onLink = append(onLink, p)
		}
	}
	for _, p := range onLink {
		if p.Addr().Is4() && p.Bits() >= leastBits4 || p.Addr().Is6() && p.Bits() >= leastBits6 {
			near = append(near, p)
		}
	}
	return near
}

// sortedNetworks sorts the networks and removes those inside another one.
func sortedNetworks(list []netip.Prefix) []netip.Prefix {
	list = slices.Clone(list)
	for i, p := range list {
		list[i] = p.Masked()
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	var all []netip.Prefix
	for _, p := range list { // only the last network before p can contain it
		if last := len(all) - 1; last < 0 || !all[last].Overlaps(p) {
			all = append(all, p)
		}
	}
	return all
}

// spelledOut replaces an unspecified address by this host's addresses, including loopback. ::
// stands for both families, as for a socket bound to it. One socket for all addresses would answer
// from the address that the routing table prefers, not from the one that the client queried.
func spelledOut(at netip.AddrPort, addrs []netstate.Addr) []netip.AddrPort {
	if !at.Addr().IsUnspecified() {
		return []netip.AddrPort{at}
	}
	var list []netip.AddrPort
	for _, addr := range addrs {
		if addr.Up && !addr.Tentative && (at.Addr().Is6() || addr.Addr.Is4()) {
			list = append(list, netip.AddrPortFrom(addr.Addr, at.Port()))
		}
	}
	return list
}
