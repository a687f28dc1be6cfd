package dnsmasqconf

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// A Rewrite is an alias= option: it replaces IPv4 addresses in upstreams' answers ("DNS
// doctoring").
type Rewrite struct {
	First, Last netip.Addr // if Last is the zero Addr: all addresses equal to First in the bits of Mask
	New         netip.Addr
	Mask        uint32 // the bits to take from New; the others stay. It may have gaps
}

// Apply returns the new address, or false if the option does not apply.
func (r Rewrite) Apply(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is4() {
		return netip.Addr{}, false
	}
	old := bits(addr)
	if r.Last.IsValid() && (addr.Less(r.First) || r.Last.Less(addr)) || !r.Last.IsValid() && old&r.Mask != bits(r.First)&r.Mask {
		return netip.Addr{}, false
	}
	var out [4]byte
	binary.BigEndian.PutUint32(out[:], old&^r.Mask|bits(r.New)&r.Mask)
	return netip.AddrFrom4(out), true
}

func bits(addr netip.Addr) uint32 {
	raw := addr.As4()
	return binary.BigEndian.Uint32(raw[:])
}

// readAlias parses alias=OLD,NEW[,MASK], or FIRST-LAST for OLD, which must be in one network of the
// mask.
func readAlias(l *loader, option, text string) {
	parts := list(text)
	first, last, isRange := strings.Cut(parts[0], "-")
	texts := []string{first, field(parts, 1), "255.255.255.255", first}
	if field(parts, 2) != "" {
		texts[2] = parts[2]
	}
	if isRange {
		texts[3] = last
	}
	var addrs [4]netip.Addr
	for i, text := range texts {
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is4() || len(parts) > 3 {
			l.fault(option, "IPv4 addresses as OLD,NEW or FIRST-LAST,NEW, with an optional third one as mask", nodeconfig.Quote(shown(text)))
			return
		}
		addrs[i] = addr
	}
	r := Rewrite{First: addrs[0], New: addrs[1], Mask: bits(addrs[2])}
	if isRange {
		r.Last = addrs[3]
		if r.Last.Less(r.First) || bits(r.First)&r.Mask != bits(r.Last)&r.Mask {
			l.fault(option, "a range within one network of the mask", nodeconfig.Quote(shown(text)))
			return
		}
	}
	l.config.Rewrites = append(l.config.Rewrites, r)
}
