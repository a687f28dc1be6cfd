package nodeconfig

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Placement is the place of node-dns on a host: its addresses and the cluster's servers.
type Placement struct {
	// Listen are the listen addresses for UDP and TCP, without duplicates, in configuration order.
	Listen []netip.AddrPort

	// All adds port 53 of every local address except loopback, including addresses that appear
	// later.
	All bool

	// Intercept are the addresses whose queries are to come here while node-dns answers: those that
	// the key intercept names and that are not this node's own.
	Intercept []netip.Addr
	// Translate means that one of Intercept is NodeLocal DNSCache's own: see intercept.Request.
	Translate bool

	// Spare are those of Listen that another program may hold: those of Intercept, which need
	// node-dns-intercept; Host.Asked, because no pod is given them now; and addresses that only
	// dnsBindAddress names, where OpenShift 3's node process or SDN pod has its own nameserver.
	Spare []netip.AddrPort

	// Nameserver is the address for /etc/resolv.conf. It is the zero Addr if the host has no
	// suitable address.
	Nameserver netip.Addr

	// ClusterDNS are the servers that the cluster zone is forwarded to, never this node. Empty if
	// none is known.
	ClusterDNS []nameserver.Server

	// Problems are sentences for the log and the status about settings that this host cannot
	// satisfy.
	Problems []string
}

// Host describes the host for Place.
type Host struct {
	// IsLocal reports whether an address is one of the host's, including all of loopback.
	IsLocal func(netip.Addr) bool
	// IsService reports whether an address is local only to answer for a Service. asked are the
	// addresses that the configuration wants to be such. Nil means that no address is.
	IsService func(addr netip.Addr, asked []netip.Addr) bool
	// NodeIP is the host's address on its default route. It is the zero Addr if there is none.
	NodeIP netip.Addr
	// Asked are more addresses that clients may query: those that pods were given earlier, and
	// those of container bridges. Addresses that are not local are ignored.
	Asked []netip.Addr
	// DNSService are the addresses of the cluster's DNS Service, from the API. Empty if unknown.
	DNSService []netip.Addr
}

// Place returns the placement of a Config on a host.
//
//   - Nameserver is the first of DNSIPs that is local, where an unspecified one means the node IP.
//     Otherwise it is the node IP, which is Config.NodeIP if that is local, else Host.NodeIP. With
//     explicit listen addresses, the first local one at port 53 takes precedence, because there is
//     no listener at the others. resolv.conf cannot contain a port, and pods cannot reach loopback.
//   - Listen "auto" is every local address in DNSIPs, because pods are given all of them, or
//     Nameserver if there is none, at port 53. It includes Host.Asked: a pod keeps its nameserver
//     address for life, and the default route may move meanwhile. DNSBindAddress is always added.
//   - Intercept is what Config.Intercept names, without addresses that the host has anyway. Listen
//     includes those that are local by now, unless they are translated. They are never Nameserver.
//   - ClusterDNS is Config.ClusterDNS, or else those of DNSIPs that are not local. Listen addresses
//     are left out, because queries to them would come back.
func (c Config) Place(host Host) Placement {
	p := newPlacer(c, host)
	p.node = p.nodeIP(host.NodeIP)
	p.placePods()
	p.placeExplicit()
	p.placeBind()
	p.placeAsked(host.Asked)
	p.placeIntercept(host)
	p.placeClusterDNS()
	if !p.result.Nameserver.IsValid() {
		p.problem("this host has no address that /etc/resolv.conf can name: no default route, and no local address in dnsIP, clusterDNS or nodeIP")
	}
	return p.result
}

type placer struct {
	Config
	isLocal func(netip.Addr) bool // without addresses of Services
	node    netip.Addr            // node IP; the zero Addr if there is none
	served  []netip.AddrPort      // port 53 of the addresses of result.Intercept that are local
	result  Placement
}

func newPlacer(c Config, host Host) placer {
	p := placer{Config: c, isLocal: host.IsLocal}
	if host.IsService != nil {
		asked := c.interceptable(host.DNSService)
		p.isLocal = func(addr netip.Addr) bool { return host.IsLocal(addr) && !host.IsService(addr, asked) }
	}
	return p
}

func (p *placer) problem(format string, args ...any) {
	p.result.Problems = append(p.result.Problems, fmt.Sprintf(format, args...))
}

func (p *placer) listen(addr netip.Addr, port uint16) {
	a := netip.AddrPortFrom(addr, port)
	if addr.IsValid() && !slices.Contains(p.result.Listen, a) {
		p.result.Listen = append(p.result.Listen, a)
	}
}

// isReachable reports whether addr is local and others can reach it.
func (p *placer) isReachable(addr netip.Addr) bool {
	return addr.IsValid() && !addr.IsUnspecified() && !addr.IsLoopback() && p.isLocal(addr)
}

func (p *placer) nodeIP(node netip.Addr) netip.Addr {
	node = node.Unmap()
	if !node.IsValid() || node.IsUnspecified() || node.IsLoopback() {
		node = netip.Addr{}
	}
	switch {
	case !p.NodeIP.IsValid():
		return node
	case p.isReachable(p.NodeIP):
		return p.NodeIP
	case p.NodeIP.IsLoopback():
		p.problem("nodeIP %v is loopback, which pods cannot reach", p.NodeIP)
	default:
		p.problem("nodeIP %v is not an address of this host", p.NodeIP)
	}
	return node
}

// placePods handles the addresses that pods are given.
func (p *placer) placePods() {
	var local []netip.Addr
	for _, addr := range p.DNSIPs {
		switch {
		case addr.IsUnspecified():
			addr = p.node
		case addr.IsLoopback():
			p.problem("pods get the nameserver %v, a loopback address that they cannot reach", addr)
		}
		if p.isReachable(addr) || addr.IsValid() && addr == p.node {
			local = append(local, addr)
		}
	}
	if len(local) == 0 {
		local = []netip.Addr{p.node}
	}
	p.result.Nameserver = local[0]
	if p.isAuto() {
		for _, addr := range local {
			p.listen(addr, nameserver.Port)
		}
	}
}

func (p *placer) isAuto() bool { return p.Listen.Auto || !p.Listen.All && len(p.Listen.Addrs) == 0 }

func (p *placer) placeExplicit() {
	p.result.All = p.Listen.All
	found := p.Listen.Auto || p.Listen.All // these include the addresses that pods are given
	for _, a := range p.Listen.Addrs {
		p.listen(a.Addr(), a.Port())
		if !p.isLocal(a.Addr()) {
			p.problem("listen %v is not an address of this host", a.Addr())
		} else if !found && a.Port() == nameserver.Port && p.isReachable(a.Addr()) {
			p.result.Nameserver, found = a.Addr(), true
		}
	}
}

// placeBind expands an unspecified dnsBindAddress. A socket bound to it would take the port from
// every other address, and its answers could leave from an address other than the query's
// destination.
func (p *placer) placeBind() {
	bind, before := p.DNSBindAddress, len(p.result.Listen)
	switch {
	case !bind.IsValid():
	case bind.Addr().IsUnspecified():
		p.listen(netip.AddrFrom4([4]byte{127, 0, 0, 1}), bind.Port())
		if bind.Addr().Is6() {
			p.listen(netip.IPv6Loopback(), bind.Port())
		}
		p.listen(p.node, bind.Port())
	default:
		p.listen(bind.Addr(), bind.Port())
		if !p.isLocal(bind.Addr()) {
			p.problem("dnsBindAddress %v is not an address of this host", bind.Addr())
		}
	}
	for _, at := range p.result.Listen[before:] {
		wanted := at.Port() == nameserver.Port && (at.Addr() == p.result.Nameserver || p.result.All && p.isReachable(at.Addr()))
		if !wanted {
			p.result.Spare = append(p.result.Spare, at)
		}
	}
}

func (p *placer) placeAsked(asked []netip.Addr) {
	for _, addr := range asked {
		at := netip.AddrPortFrom(addr, nameserver.Port)
		if p.isAuto() && p.isReachable(addr) && !slices.Contains(p.result.Listen, at) {
			p.listen(addr, nameserver.Port)
			p.result.Spare = append(p.result.Spare, at)
		}
	}
}

// placeIntercept listens on the addresses to intercept once they are local. An address that only
// the helper's link has comes and goes with the helper.
func (p *placer) placeIntercept(host Host) {
	// If one is local without the helper, queries arrive anyway.
	p.result.Intercept = slices.DeleteFunc(p.interceptable(host.DNSService), p.isLocal)
	p.result.Translate = slices.ContainsFunc(p.result.Intercept, p.Intercept.isCaches)
	for _, addr := range p.result.Intercept {
		at := netip.AddrPortFrom(addr, nameserver.Port)
		if !host.IsLocal(addr) {
			continue
		}
		p.served = append(p.served, at)
		if !p.result.Translate && !slices.Contains(p.result.Listen, at) {
			p.listen(addr, nameserver.Port)
			p.result.Spare = append(p.result.Spare, at)
		}
	}
}

// placeClusterDNS leaves out an intercepted address without a problem: the cluster zone is then
// answered from the API.
func (p *placer) placeClusterDNS() {
	servers := p.ClusterDNS
	if len(servers) == 0 {
		for _, addr := range p.DNSIPs {
			if !addr.IsUnspecified() && !p.isLocal(addr) {
				servers = append(servers, nameserver.FromAddr(addr))
			}
		}
	}
	for _, server := range servers {
		if slices.Contains(p.served, server.Addr) {
			continue
		}
		if p.isOurs(server.Addr) {
			p.problem("cluster DNS server %v is node-dns itself; ignoring it, because queries would loop", server)
		} else if !slices.Contains(p.result.ClusterDNS, server) {
			p.result.ClusterDNS = append(p.result.ClusterDNS, server)
		}
	}
}

func (p *placer) isOurs(a netip.AddrPort) bool {
	return slices.Contains(p.result.Listen, a) ||
		p.result.All && a.Port() == nameserver.Port && p.isReachable(a.Addr())
}
