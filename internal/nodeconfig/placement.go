package nodeconfig

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/nameserver"
)

// Placement is where node-dns sits on a host.
type Placement struct {
	// Listen are the addresses to listen on, UDP and TCP, each once, in the order of the configuration.
	Listen []netip.AddrPort

	// All asks for port 53 of every local address but loopback as well, of those that appear later too.
	All bool

	// Nameserver is what /etc/resolv.conf should say. The zero Addr: nothing, the host has no address for it.
	Nameserver netip.Addr

	// ClusterDNS are the servers that the cluster zone is forwarded to; none of them is ourselves. Empty: none is known.
	ClusterDNS []nameserver.Server

	// Problems are sentences for the log and for status, about what the configuration asks and this host does not have.
	Problems []string
}

// Place says where a Config puts us on a host. isLocal reports whether an address is the host's, all of loopback
// included; node is the host's address on its default route, the zero Addr when it has none.
//
//   - Nameserver is the first of DNSIPs that is the host's own, where an unspecified one stands for the node IP; else the
//     node IP, which is Config.NodeIP when that is local, else node. Of explicit listen addresses the first local one at
//     port 53 goes before, as nobody answers at the others. resolv.conf has no place for a port, and loopback is useless
//     to pods.
//   - Listen "auto" is every local address among DNSIPs, or Nameserver where there is none, at port 53: pods are given all
//     of DNSIPs. DNSBindAddress is listened on in any case.
//   - ClusterDNS is Config.ClusterDNS; else those of DNSIPs that are not local. What we listen on is left out: the query
//     would come back.
func (c Config) Place(isLocal func(netip.Addr) bool, node netip.Addr) Placement {
	p := placer{Config: c, isLocal: isLocal}
	p.node = p.nodeIP(node)
	p.placePods()
	p.placeExplicit()
	p.placeBind()
	p.placeClusterDNS()
	if !p.result.Nameserver.IsValid() {
		p.problem("this host has no address that /etc/resolv.conf can name: no default route, and no local address in dnsIP, clusterDNS or nodeIP")
	}
	return p.result
}

// placer works out one Placement.
type placer struct {
	Config
	isLocal func(netip.Addr) bool
	node    netip.Addr // the node IP; the zero Addr when there is none
	result  Placement
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

// isReachable reports whether addr is the host's and others can reach it.
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

// placePods does what the addresses that pods are given ask for.
func (p *placer) placePods() {
	var local []netip.Addr
	for _, addr := range p.DNSIPs {
		switch {
		case addr.IsUnspecified():
			addr = p.node
		case addr.IsLoopback():
			p.problem("pods are given the nameserver %v, which is loopback: they cannot reach it", addr)
		}
		if p.isReachable(addr) || addr.IsValid() && addr == p.node {
			local = append(local, addr)
		}
	}
	if len(local) == 0 {
		local = []netip.Addr{p.node}
	}
	p.result.Nameserver = local[0]
	if p.Listen.Auto || !p.Listen.All && len(p.Listen.Addrs) == 0 {
		for _, addr := range local {
			p.listen(addr, nameserver.Port)
		}
	}
}

func (p *placer) placeExplicit() {
	p.result.All = p.Listen.All
	found := p.Listen.Auto || p.Listen.All // which cover the addresses that pods are given
	for _, a := range p.Listen.Addrs {
		p.listen(a.Addr(), a.Port())
		if !p.isLocal(a.Addr()) {
			p.problem("listen %v is not an address of this host", a.Addr())
		} else if !found && a.Port() == nameserver.Port && p.isReachable(a.Addr()) {
			p.result.Nameserver, found = a.Addr(), true
		}
	}
}

// placeBind spells an unspecified dnsBindAddress out. A socket bound to it would take the port from every other address,
// and its answers could leave from another address than the query came to.
func (p *placer) placeBind() {
	bind := p.DNSBindAddress
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
}

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
		if p.isOurs(server.Addr) {
			p.problem("cluster DNS server %v is node-dns itself: left out, queries would go in a circle", server)
		} else if !slices.Contains(p.result.ClusterDNS, server) {
			p.result.ClusterDNS = append(p.result.ClusterDNS, server)
		}
	}
}

func (p *placer) isOurs(a netip.AddrPort) bool {
	return slices.Contains(p.result.Listen, a) ||
		p.result.All && a.Port() == nameserver.Port && p.isReachable(a.Addr())
}
