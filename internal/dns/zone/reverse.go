package zone

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// reverse answers for a name outside the cluster domains: for known addresses anywhere, and for
// unknown ones in the cluster's networks.
func (l *lookup) reverse() {
	prefix, left, ok := l.reversed()
	if !ok {
		l.verdict = foreign
		return
	}
	cut, ours := l.zoneOf(prefix)
	if ours {
		l.zoneAt = l.n - 2 - cut/unit(prefix)
	}
	isAddr := prefix.IsSingleIP() && left == 0
	switch {
	case isAddr && l.pointers(prefix.Addr(), ours):
	case !ours:
		l.verdict = foreign
	case left > 0, isAddr:
		l.nxdomain()
	case prefix.Bits() == cut:
		l.apex()
	} // otherwise it is an empty non-terminal
}

// unit returns the number of address bits in one label of a reverse name.
func unit(prefix netip.Prefix) int {
	if prefix.Addr().Is4() {
		return 8
	}
	return 4
}

// zoneOf returns the number of address bits of the reverse zone that contains the prefix, and
// whether the zone belongs to the cluster.
func (l *lookup) zoneOf(prefix netip.Prefix) (cut int, ours bool) {
	for _, cidr := range l.cfg.cidrs {
		if cidr.Bits() <= prefix.Bits() && cidr.Contains(prefix.Addr()) {
			unit := unit(prefix)
			return (cidr.Bits() + unit - 1) / unit * unit, true
		}
	}
	return 0, false
}

// reversed parses a name below in-addr.arpa (RFC 1035 section 3.5) or ip6.arpa (RFC 3596 section
// 2.5). It returns the prefix in the last labels, and the number of labels before them.
func (l *lookup) reversed() (prefix netip.Prefix, left int, ok bool) {
	if l.n < 2 || string(l.label(l.n-1)) != "arpa" {
		return netip.Prefix{}, 0, false
	}
	left = l.n - 2
	switch string(l.label(left)) {
	case "in-addr":
		var octets [4]byte
		bits := 0
		for ; left > 0 && bits < 32; bits += 8 {
			value, ok := decimal(l.label(left - 1))
			if !ok {
				break
			}
			octets[bits/8] = value
			left--
		}
		return netip.PrefixFrom(netip.AddrFrom4(octets), bits), left, true
	case "ip6":
		var octets [16]byte
		bits := 0
		for ; left > 0 && bits < 128; bits += 4 {
			value, ok := unhash(l.label(left - 1))
			if !ok || value > 0xf {
				break
			}
			octets[bits/8] |= byte(value) << (4 - bits%8)
			left--
		}
		return netip.PrefixFrom(netip.AddrFrom16(octets), bits), left, true
	}
	return netip.Prefix{}, 0, false
}

// decimal parses an octet without leading zeros.
func decimal(label []byte) (byte, bool) {
	if len(label) == 0 || len(label) > 3 || label[0] == '0' && len(label) > 1 {
		return 0, false
	}
	value := 0
	for _, c := range label {
		if c < '0' || c > '9' {
			return 0, false
		}
		value = 10*value + int(c-'0')
	}
	return byte(value), value <= 255
}

// Limits of the search for the names of an address. A user who may write slices could otherwise
// repeat an address so often that a question takes minutes.
const (
	maxPointers = 256     // endpoints with the address
	maxOfOne    = 16      // of these, endpoints of one Service
	maxWalked   = 1 << 17 // endpoints, and their ports, that are visited: those of 26 Services with 5,000 each
)

// pointers answers for a known address. If the address is a ClusterIP, only its Services count. Of
// endpoints with the address, the best comes first, because most clients use only one: endpoints
// with a hostname in a headless service, then others with a hostname, then headless services.
// SkyDNS knows only endpoints with a hostname, and returns one.
func (l *lookup) pointers(addr netip.Addr, ours bool) (known bool) {
	l.ordered = true
	l.addNames(addr, ours)
	if imports := l.snapshot.imports; len(l.records) == 0 && imports != nil && l.cfg.clusterSet != nil {
		l.from = imports
		if l.snapshot.noImports {
			if !ours {
				return false
			}
			l.verdict = unknown
			return true
		}
		l.addNames(addr, ours)
	}
	if len(l.records) == 0 {
		l.from = l.snapshot
		return false
	}
	slices.SortStableFunc(l.records, func(a, b record) int { return cmp.Or(cmp.Compare(a.of, b.of), strings.Compare(a.view.key, b.view.key)) })
	if l.cfg.isOpenShift {
		l.records = l.records[:1]
	}
	if l.qtype != dns.TypePTR {
		l.records = l.records[:0]
	}
	return true
}

// addNames adds the names of an address in l.from: of its Services, or else of its endpoints.
func (l *lookup) addNames(addr netip.Addr, ours bool) {
	l.addClusterIPs(addr)
	l.leaveOutElsewhere(ours)
	if len(l.records) == 0 {
		l.addPointers(addr)
		l.leaveOutElsewhere(ours)
	}
}

// The ranks of PTR records, for sorting.
const (
	rankClusterIP = iota
	rankHeadlessHostname
	rankHostname
	rankHeadless
	rankOther
)

// nextView returns the view of the first of the references to an address, and the references to
// others. The view is nil if it has no Service or is not exposed.
func (l *lookup) nextView(refs []uint64) (v *view, rest []uint64) {
	end := 1
	for end < len(refs) && refs[end] == refs[0] { // the same view has the address again
		end++
	}
	v = l.from.services.get(l.from.addrs.names.of(uint32(refs[0])))
	if v == nil || v.svc == nil || !l.exposes([]byte(v.namespace())) {
		v = nil
	}
	return v, refs[end:]
}

// addClusterIPs adds the names of the Services whose ClusterIP is the address.
func (l *lookup) addClusterIPs(addr netip.Addr) {
	refs := l.from.addrs.at(addr)
	// The API keeps ClusterIPs unique, but not addresses of ServiceImports.
	for walked := 0; len(refs) > 0 && (walked < maxPointers || !l.isImport()); walked++ {
		var v *view
		if v, refs = l.nextView(refs); v != nil && slices.Contains(v.svc.ClusterIPs, addr) {
			l.records = append(l.records, record{rtype: dns.TypePTR, view: v, of: rankClusterIP})
		}
	}
}

// addPointers adds the names of the endpoints with the address.
func (l *lookup) addPointers(addr netip.Addr) {
	found, walked := 0, 0
	for refs := l.from.addrs.at(addr); len(refs) > 0; {
		var v *view
		if v, refs = l.nextView(refs); v == nil || slices.Contains(v.svc.ClusterIPs, addr) {
			continue
		}
		ofOne := 0
		for _, s := range v.slices {
			for c := s.endpoints(); ofOne < maxOfOne && c.next(); {
				if walked++; walked > maxWalked || found >= maxPointers {
					return
				}
				if c.Addr == addr && v.isReady(&c) && (c.Hostname != "" || !l.cfg.isOpenShift) {
					r := l.hostOf(&c)
					r.from = l.importedFrom(s)
					r.rtype, r.view, r.of = dns.TypePTR, v, rankOf(v, &c)
					if l.isTooLong(r, v) {
						continue
					}
					l.addPointer(r)
					found, ofOne = found+1, ofOne+1
				}
			}
		}
	}
}

// leaveOutElsewhere removes the records that isElsewhere reports, if the address is outside the
// cluster's networks.
func (l *lookup) leaveOutElsewhere(ours bool) {
	if !ours {
		l.records = slices.DeleteFunc(l.records, l.isElsewhere)
	}
}

// isElsewhere reports whether the address of a name is outside the networks that it should be in.
// An endpoint outside the Pod networks is a host of the site, which has its own name.
func (l *lookup) isElsewhere(r record) bool {
	if r.of == rankClusterIP {
		return !l.cfg.anyService
	}
	return !l.cfg.anyPod
}

// addPointer adds a name once, even if a Service has the address several times.
func (l *lookup) addPointer(r record) {
	isSame := func(other record) bool {
		return other.form == r.form && other.label == r.label && other.addr == r.addr && other.view == r.view && other.cluster() == r.cluster()
	}
	if !slices.ContainsFunc(l.records, isSame) {
		l.records = append(l.records, r)
	}
}

func rankOf(v *view, c *cursor) int32 {
	switch headless := v.svc.Kind == Headless; {
	case c.Hostname != "" && headless:
		return rankHeadlessHostname
	case c.Hostname != "":
		return rankHostname
	case headless:
		return rankHeadless
	}
	return rankOther
}
