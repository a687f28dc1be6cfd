package netstate

import (
	"cmp"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// state decides; everything it needs of the kernel is in f and in kernel.
func (f facts) state(kernel ask) State {
	var s State
	for _, d := range f.onLink {
		d.Interface = f.links[d.Index].name
		s.OnLink = append(s.OnLink, d)
	}
	for _, a := range f.addrs {
		l := f.links[a.index]
		s.Addrs = append(s.Addrs, Addr{
			Addr:       zoned(a.ip, l.name),
			Interface:  l.name,
			Index:      a.index,
			Bits:       a.bits,
			Up:         l.up,
			Tentative:  a.tentative || a.dadFailed,
			Deprecated: a.deprecated,
		})
	}
	s.Default4 = f.defaultRoute(inet, kernel)
	s.Default6 = f.defaultRoute(inet6, kernel)
	return s
}

func (f facts) defaultRoute(fam family, kernel ask) *DefaultRoute {
	c, ok := f.chooseRoute(fam)
	if !ok {
		return nil
	}
	name := f.links[c.index].name
	return &DefaultRoute{
		Interface: name,
		Index:     c.index,
		Gateway:   zoned(c.gateway, name),
		Source:    f.sourceFor(fam, c, kernel),
		Metric:    int(c.metric),
		Table:     int(c.table),
	}
}

func zoned(a netip.Addr, name string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(name)
	}
	return a
}

// chosen is one next hop of one route.
type chosen struct {
	route
	hop
}

// chooseRoute returns the /0 route that a packet of this node takes: of the
// tables in the order in which the rules reach them, the first that has one; in
// it the lowest metric; of equal metrics the higher router preference (RFC 4191
// section 3.2), then the kernel's order; of several next hops the first.
//
// A route without carrier ("linkdown") is the last choice. The kernel goes on
// using it unless net.ipv4.conf.*.ignore_routes_with_linkdown is set, and a
// cable that is out for a second must not cost the node its address.
func (f facts) chooseRoute(fam family) (chosen, bool) {
	visits := lookups(f.rules[fam])
	for _, linkdown := range []bool{false, true} {
		for _, by := range visits {
			if c, ok := f.bestRoute(fam, by, linkdown); ok {
				return c, true
			}
		}
	}
	return chosen{}, false
}

// bestRoute returns the best route of the table that a rule looks up.
func (f facts) bestRoute(fam family, by rule, linkdown bool) (chosen, bool) {
	var found []chosen
	for _, r := range f.routes[fam] {
		i := slices.IndexFunc(r.hops, func(h hop) bool { return f.usable(h, by, linkdown) })
		if i >= 0 && r.table == by.table {
			found = append(found, chosen{r, r.hops[i]})
		}
	}
	if len(found) == 0 {
		return chosen{}, false
	}
	return slices.MinFunc(found, func(a, b chosen) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(prefRank(a.pref), prefRank(b.pref)))
	}), true
}

func (f facts) usable(h hop, by rule, linkdown bool) bool {
	l, ok := f.links[h.index]
	switch {
	case !ok, !l.up, l.loopback, h.dead:
		return false
	case by.hasGroup && l.group == by.withoutGroup:
		return false
	}
	return linkdown || !h.linkdown
}

// prefRank orders router preferences: the wire has medium 0, high 1, low 3
// (RFC 4191 section 2.1).
func prefRank(pref uint8) int {
	switch pref {
	case 1:
		return 0
	case 3:
		return 2
	default:
		return 1
	}
}

// lookups returns the rules that look every packet of this node up in a table, in
// order. A rule that only some packets match (a mark, a source, a VRF, a user)
// says nothing about the node's default route: that is how WireGuard's wg-quick
// keeps its "not fwmark" rule from taking the node IP with it.
func lookups(rules []rule) []rule {
	var visits []rule
	for i := 0; i < len(rules); i++ {
		r := rules[i]
		if r.conditional {
			continue
		}
		switch r.action {
		case unix.FR_ACT_TO_TBL:
			if !r.noDefaults {
				visits = append(visits, r)
			}
		case unix.FR_ACT_GOTO:
			i = jump(rules, i, r.target)
		case unix.FR_ACT_BLACKHOLE, unix.FR_ACT_UNREACHABLE, unix.FR_ACT_PROHIBIT:
			return visits
		}
	}
	return visits
}

// jump returns the index before the rule that a goto at i continues with. A
// target that no rule has is skipped, as the kernel does ([unresolved]); it
// never goes back.
func jump(rules []rule, i int, target uint32) int {
	skipped := slices.IndexFunc(rules[i+1:], func(r rule) bool { return r.priority == target })
	return i + max(0, skipped)
}

// plainRules is what a kernel without CONFIG_IP_MULTIPLE_TABLES does.
func plainRules() []rule {
	return []rule{
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_LOCAL},
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_MAIN},
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_DEFAULT},
	}
}

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
