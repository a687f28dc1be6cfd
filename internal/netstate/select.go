package netstate

import (
	"cmp"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// state decides. Its only inputs from the kernel are f and kernel.
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

// chooseRoute returns the /0 route that a packet of this node takes. It uses the first table with
// such a route, in the order in which the rules reach the tables. In that table the lowest metric
// wins, then the higher router preference (RFC 4191 section 3.2), then the kernel's order. Of
// several next hops it takes the first.
//
// A route without carrier ("linkdown") is the last choice. The kernel uses it unless
// net.ipv4.conf.*.ignore_routes_with_linkdown is set. A cable that is unplugged for a second must
// not cost the node its address.
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

// prefRank orders router preferences. The encoding is medium 0, high 1, low 3 (RFC 4191 section
// 2.1).
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

// lookups returns the rules that send every packet of this node to a table, in order. A rule that
// only some packets match (by mark, source, VRF or user) does not affect the node's default route.
// So the "not fwmark" rule of WireGuard's wg-quick does not change the node IP.
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

// jump returns the index before the rule where a goto at i continues. If no rule has the target,
// the goto is skipped, as in the kernel ([unresolved]). It never goes back.
func jump(rules []rule, i int, target uint32) int {
	skipped := slices.IndexFunc(rules[i+1:], func(r rule) bool { return r.priority == target })
	return i + max(0, skipped)
}

// plainRules are the rules of a kernel without CONFIG_IP_MULTIPLE_TABLES.
func plainRules() []rule {
	return []rule{
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_LOCAL},
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_MAIN},
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_DEFAULT},
	}
}

// ask returns the source address that the kernel would use for a packet to destination over the
// interface, or zero if the kernel refuses.
type ask func(destination netip.Addr, index int) netip.Addr

// sourceFor returns the node's own address for the chosen route. In order of preference it is the
// route's preferred source, the kernel's choice if that is an address of the interface, or the best
// address of the interface. For an unnumbered interface it is the kernel's choice, the best address
// of lo, or the best of another interface.
//
// An address of the interface comes before the kernel's choice of another interface's address.
// Otherwise, during the second of duplicate address detection, the kernel would choose a bridge's
// address, and the node IP would change twice.
func (f facts) sourceFor(fam family, c chosen, kernel ask) netip.Addr {
	if fam.of(c.source) && nodeWide(c.source) {
		return c.source
	}
	answer := kernel(probe(fam, c.gateway), c.index)
	choice := func(a address) bool {
		rank, ok := quality(a)
		// The source of a connected route may be an IPv4 secondary address. For IPv6 the same flag
		// means a privacy address.
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

// The ranks of quality. A tentative address comes last: it cannot be bound yet, but usually can in
// a second.
const (
	best = iota
	secondary
	limited
	deprecated
	worst
)

// quality ranks an address as the node's own, lower is better. ok is false if it is unusable.
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

// nodeWide reports whether other hosts can reach the node at a, and not only through one link.
func nodeWide(a netip.Addr) bool {
	return a.IsGlobalUnicast() // not unspecified, loopback, multicast, broadcast or link-local
}

// probe returns the destination for the question to the kernel. That is the gateway if it has the
// family fam. For an IPv6 link-local gateway, as from every router advertisement, the kernel would
// return a link-local source. In that case, and without a gateway of the family, the destination is
// an address that only the default route leads to. No packet is sent.
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
