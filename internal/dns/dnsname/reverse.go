package dnsname

import (
	"net/netip"
	"strconv"
	"strings"
)

// Reverse returns the name of addr's PTR records: RFC 1035 section 3.5 for IPv4, RFC 3596 section
// 2.5 for IPv6. An IPv4-mapped address counts as IPv4, a zone ID is ignored, and the zero Addr
// returns the zero Name.
func Reverse(addr netip.Addr) Name {
	addr = addr.Unmap()
	if !addr.IsValid() {
		return Name{}
	}
	return reverseZone(addr, addr.BitLen())
}

// ReverseZones returns the reverse zones that together contain exactly the addresses of prefix, in
// address order. Zone cuts are at octets (IPv4) and nibbles (IPv6), so a prefix between two cuts
// has several zones: at most 128 for IPv4, 8 for IPv6. It returns nil for an invalid prefix.
func ReverseZones(prefix netip.Prefix) []Name {
	prefix = unmapPrefix(prefix).Masked()
	if !prefix.IsValid() {
		return nil
	}
	unit := labelBits(prefix.Addr())
	cut := (prefix.Bits() + unit - 1) / unit * unit
	zones := make([]Name, 0, 1<<(cut-prefix.Bits()))
	for i := range cap(zones) {
		zones = append(zones, reverseZone(addAtBit(prefix.Addr(), i, cut), cut))
	}
	return zones
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// labelBits returns the number of address bits in one label of a reverse name.
func labelBits(addr netip.Addr) int {
	if addr.Is4() {
		return 8
	}
	return 4
}

// addAtBit adds i to the number that ends at bit position cut. i must fit into the label that ends
// there, whose low bits are zero.
func addAtBit(addr netip.Addr, i, cut int) netip.Addr {
	if cut == 0 {
		return addr
	}
	octets := addr.AsSlice()
	last := (cut - 1) / 8
	octets[last] += byte(i << (8*(last+1) - cut))
	sum, _ := netip.AddrFromSlice(octets)
	return sum
}

// reverseZone returns the reverse zone of the first bits of addr. bits must be at a zone cut.
func reverseZone(addr netip.Addr, bits int) Name {
	var text strings.Builder
	octets := addr.AsSlice()
	if addr.Is4() {
		for i := bits/8 - 1; i >= 0; i-- {
			text.WriteString(strconv.Itoa(int(octets[i])))
			text.WriteByte('.')
		}
		text.WriteString("in-addr.arpa.")
		return Name{text: text.String()}
	}
	for i := bits/4 - 1; i >= 0; i-- {
		nibble := octets[i/2] >> (4 * (1 - i%2)) & 0xf
		text.WriteByte("0123456789abcdef"[nibble])
		text.WriteByte('.')
	}
	text.WriteString("ip6.arpa.")
	return Name{text: text.String()}
}
