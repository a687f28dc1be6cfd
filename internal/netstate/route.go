package netstate

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

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
	tables := lookups(f.rules[fam])
	for _, linkdown := range []bool{false, true} {
		for _, t := range tables {
			if c, ok := f.bestIn(f.routes[fam], t, linkdown); ok {
				return c, true
			}
		}
	}
	return chosen{}, false
}

func (f facts) bestIn(routes []route, t lookup, linkdown bool) (chosen, bool) {
	var found []chosen
	for _, r := range routes {
		if r.table != t.table {
			continue
		}
		i := slices.IndexFunc(r.hops, func(h hop) bool { return f.usable(h, t, linkdown) })
		if i >= 0 {
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

func (f facts) usable(h hop, t lookup, linkdown bool) bool {
	l, ok := f.links[h.index]
	switch {
	case !ok, !l.up, l.loopback, h.dead:
		return false
	case t.hasGroup && l.group == t.withoutGroup:
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

// lookup is a visit to one routing table.
type lookup struct {
	table, withoutGroup uint32
	hasGroup            bool
}

// lookups returns the tables that every packet of this node is looked up in, in
// order. A rule that only some packets match (a mark, a source, a VRF, a user)
// says nothing about the node's default route: that is how WireGuard's wg-quick
// keeps its "not fwmark" rule from taking the node IP with it.
func lookups(rules []rule) []lookup {
	var visits []lookup
	for i := 0; i < len(rules); i++ {
		r := rules[i]
		if r.conditional {
			continue
		}
		switch r.action {
		case unix.FR_ACT_TO_TBL:
			if !r.noDefaults {
				visits = append(visits, lookup{r.table, r.withoutGroup, r.hasGroup})
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
	for j := i + 1; j < len(rules); j++ {
		if rules[j].priority == target {
			return j - 1
		}
	}
	return i
}

// plainRules is what a kernel without CONFIG_IP_MULTIPLE_TABLES does.
func plainRules() []rule {
	return []rule{
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_LOCAL},
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_MAIN},
		{action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_DEFAULT},
	}
}
