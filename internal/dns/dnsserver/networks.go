package dnsserver

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// Networks is an immutable set of addresses. nil is the empty set.
type Networks struct {
	v4 []span[uint32]
	v6 []span[uint128]
}

// span is a range of addresses, including both ends.
type span[T any] struct{ from, to T }

// uint128 is an IPv6 address as a number.
type uint128 struct{ high, low uint64 }

func (a uint128) less(b uint128) bool {
	return a.high < b.high || a.high == b.high && a.low < b.low
}

func (a uint128) compare(b uint128) int {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
}

// NewNetworks returns the set of all addresses in the prefixes. It ignores invalid prefixes.
func NewNetworks(prefixes []netip.Prefix) *Networks {
	n := new(Networks)
	for _, p := range prefixes {
		p = unmapped(p)
		switch {
		case !p.IsValid():
		case p.Addr().Is4():
			first := number4(p.Addr())
			n.v4 = append(n.v4, span[uint32]{first, first | uint32(1<<(32-p.Bits())-1)})
		default:
			n.v6 = append(n.v6, span6(p))
		}
	}
	n.v4 = merged(n.v4, cmp.Compare[uint32])
	n.v6 = merged(n.v6, uint128.compare)
	return n
}

// unmapped returns p with its host bits cleared, as an IPv4 prefix if p covers only IPv4-mapped
// addresses.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

func span6(p netip.Prefix) span[uint128] {
	first := number6(p.Addr())
	last := first
	switch bits := p.Bits(); {
	case bits <= 64:
		last.low = ^uint64(0)
		last.high |= ^uint64(0) >> bits
	default:
		last.low |= ^uint64(0) >> (bits - 64)
	}
	return span[uint128]{first, last}
}

// merged sorts the spans and merges those that overlap.
func merged[T any](spans []span[T], compare func(a, b T) int) []span[T] {
	slices.SortFunc(spans, func(a, b span[T]) int { return compare(a.from, b.from) })
	var all []span[T]
	for _, s := range spans {
		last := len(all) - 1
		switch {
		case last < 0 || compare(all[last].to, s.from) < 0:
			all = append(all, s)
		case compare(all[last].to, s.to) < 0:
			all[last].to = s.to
		}
	}
	return all
}

// Contains reports whether the set contains an address. An IPv4-mapped address counts as the IPv4
// address, and the zone is ignored.
func (n *Networks) Contains(a netip.Addr) bool {
	if n == nil {
		return false
	}
	if a.Is4() || a.Is4In6() {
		return contains4(n.v4, number4(a))
	}
	return contains6(n.v6, number6(a))
}

// contains4 and contains6 differ only in the comparison, which is not a function parameter because
// they run for each query.
func contains4(spans []span[uint32], a uint32) bool {
	low, high := 0, len(spans) // the first span that ends at or after a is in [low, high]
	for low < high {
		if middle := int(uint(low+high) >> 1); spans[middle].to < a {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low < len(spans) && spans[low].from <= a
}

func contains6(spans []span[uint128], a uint128) bool {
	low, high := 0, len(spans)
	for low < high {
		if middle := int(uint(low+high) >> 1); spans[middle].to.less(a) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low < len(spans) && !a.less(spans[low].from)
}

func number4(a netip.Addr) uint32 {
	octets := a.As16()
	return binary.BigEndian.Uint32(octets[12:])
}

func number6(a netip.Addr) uint128 {
	octets := a.As16()
	return uint128{binary.BigEndian.Uint64(octets[:]), binary.BigEndian.Uint64(octets[8:])}
}
