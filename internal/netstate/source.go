package netstate

import "net/netip"

// ask returns the address that the kernel would send from when it sends to
// destination over the interface; zero when it refuses.
type ask func(destination netip.Addr, index int) netip.Addr

// sourceFor returns the node's own address on the chosen route: the route's
// preferred source; else the kernel's choice when it is an address of the
// interface; else the best address of the interface; else, for an unnumbered
// interface, the kernel's choice, the best address of lo, or of the others.
//
// An address of the interface comes before the kernel's choice of another's,
// because for the second that duplicate address detection takes the kernel
// would name a bridge's address, and the node IP would move twice.
func (f facts) sourceFor(fam family, c chosen, kernel ask) netip.Addr {
	if fam.of(c.source) && nodeWide(c.source) {
		return c.source
	}
	answer := kernel(probe(fam, c.gateway), c.index)
	choice := func(a address) bool {
		rank, ok := quality(a)
		// The source of a connected route may be an IPv4 secondary address; the
		// IPv6 flag of the same number means a privacy address.
		return a.ip == answer && ok && (rank == best || rank == secondary && fam == inet)
	}
	places := []func(address) bool{
		func(a address) bool { return a.index == c.index && choice(a) },
		func(a address) bool { return a.index == c.index },
		choice,
		func(a address) bool { return f.links[a.index].loopback },
		func(a address) bool { return f.links[a.index].up },
	}
	for _, here := range places {
		if a, ok := f.bestAddress(fam, here); ok {
			return a
		}
	}
	return netip.Addr{}
}

func (f facts) bestAddress(fam family, here func(address) bool) (netip.Addr, bool) {
	var found netip.Addr
	lowest := worst + 1
	for _, a := range f.addrs {
		if rank, ok := quality(a); ok && fam.of(a.ip) && here(a) && rank < lowest {
			found, lowest = a.ip, rank
		}
	}
	return found, found.IsValid()
}

// The ranks of quality. Tentative comes last: it cannot be bound yet, but in a
// second it can.
const (
	best = iota
	secondary
	limited
	deprecated
	worst
)

// quality ranks an address as a node's own, lower is better; false: never.
func quality(a address) (rank int, ok bool) {
	switch {
	case a.dadFailed || !nodeWide(a.ip):
		return 0, false
	case a.tentative:
		return worst, true
	case a.deprecated:
		return deprecated, true
	case a.limited:
		return limited, true
	case a.second:
		return secondary, true
	}
	return best, true
}

// nodeWide reports whether others can reach the node at a: not through one link
// alone, and not only from itself.
func nodeWide(a netip.Addr) bool {
	return a.IsGlobalUnicast() // neither unspecified, loopback, multicast, broadcast nor link-local
}

// probe returns the destination to ask the kernel about: the gateway, or where
// there is none of the family, or where a link-local gateway would be answered
// with a link-local source (every router advertisement), an address that only
// the default route leads to. Nothing is sent.
func probe(fam family, gateway netip.Addr) netip.Addr {
	switch {
	case fam == inet && gateway.Is4():
		return gateway
	case fam == inet:
		return netip.AddrFrom4([4]byte{192, 0, 2, 1}) // TEST-NET-1, RFC 5737
	case gateway.Is6() && !gateway.IsLinkLocalUnicast():
		return gateway
	}
	return netip.AddrFrom16([16]byte{0: 0x20, 15: 1}) // 2000::1, first of global unicast, RFC 4291
}
