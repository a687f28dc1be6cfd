package daemon

import (
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// access says who may ask at the addresses of clusterListen: they may be open to more of the world than the node IP is
// meant to be (0.0.0.0:8053 on OpenShift's masters), and whoever answers everyone is used to attack others.
type access struct {
	listen  []netip.AddrPort // clusterListen, spelled out, without what is listened on anyway
	clients []netip.Prefix
}

// newAccess opens clusterListen to the networks of pods, services and clusterClients. open are the addresses that are
// listened on anyway, to which nothing is added.
func newAccess(config nodeconfig.Config, open []netip.AddrPort, addrs []netstate.Addr) access {
	a := access{clients: slices.Concat(config.PodCIDRs, config.ServiceCIDRs, config.Resolver.Clients)}
	for _, at := range config.Resolver.Listen {
		for _, addr := range spelledOut(at, addrs) {
			if !slices.Contains(open, addr) && !slices.Contains(a.listen, addr) {
				a.listen = append(a.listen, addr)
			}
		}
	}
	return a
}

// spelledOut is what an unspecified address stands for: this host's, those of loopback too; with :: those of both
// families, as with a socket that is bound to it. One socket for all would answer from the address that the routing
// table likes, not from the one that was asked.
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

// allows reports whether a client may ask at local. This host may always.
func (a access) allows(local netip.AddrPort, client netip.Addr, isLocal func(netip.Addr) bool) bool {
	if len(a.listen) == 0 || !slices.Contains(a.listen, unmapped(local)) {
		return true
	}
	client = client.Unmap().WithZone("")
	return isLocal(client) || slices.ContainsFunc(a.clients, func(p netip.Prefix) bool { return p.Contains(client) })
}

// refused is the answer to who may not ask: REFUSED, with the Extended DNS Error Prohibited.
func refused(q *dnsserver.Query) *dns.Msg {
	m := reply(q, dns.RcodeRefused)
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited, ExtraText: "not one of clusterClients"}}
	m.Extra = []dns.RR{opt}
	return m
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
