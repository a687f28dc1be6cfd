package netstate

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// isDefault reports whether a struct rtmsg is a route to everywhere, from
// anywhere, for every packet: a /0 that is neither source-specific nor for one
// type of service, forwards packets instead of dropping them, and is no cache
// entry. Routes 0.0.0.0/1 and 128.0.0.0/1, by which a VPN covers the default
// route without replacing it, are not.
func isDefault(msg []byte) bool {
	if len(msg) < unix.SizeofRtMsg {
		return false
	}
	dstLen, srcLen, tos, kind := msg[1], msg[2], msg[3], msg[7]
	flags := binary.NativeEndian.Uint32(msg[8:])
	return dstLen == 0 && srcLen == 0 && tos == 0 && kind == unix.RTN_UNICAST && flags&unix.RTM_F_CLONED == 0
}

// decodeRoute reads a struct rtmsg of RTM_NEWROUTE.
func decodeRoute(msg []byte) (route, error) {
	attrs, err := attributes(msg, unix.SizeofRtMsg)
	if err != nil {
		return route{}, err
	}
	r := route{table: uint32(msg[4])}
	if table, ok := number(attrs[unix.RTA_TABLE]); ok {
		r.table = table
	}
	r.metric, _ = number(attrs[unix.RTA_PRIORITY])
	if p := attrs[unix.RTA_PREF]; len(p) > 0 {
		r.pref = p[0]
	}
	r.source, _ = netip.AddrFromSlice(attrs[unix.RTA_PREFSRC])
	if several, ok := attrs[unix.RTA_MULTIPATH]; ok {
		r.hops, err = decodeHops(several)
		return r, err
	}
	if index, ok := number(attrs[unix.RTA_OIF]); ok {
		r.hops = []hop{newHop(int(index), binary.NativeEndian.Uint32(msg[8:]), attrs)}
	}
	return r, nil
}

// decodeHops reads RTA_MULTIPATH: a row of struct rtnexthop, each with its own
// attributes.
func decodeHops(b []byte) ([]hop, error) {
	var hops []hop
	for len(b) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			return hops, errShort
		}
		attrs, err := attributes(b[:size], unix.SizeofRtNexthop)
		if err != nil {
			return hops, err
		}
		hops = append(hops, newHop(int(binary.NativeEndian.Uint32(b[4:])), uint32(b[2]), attrs))
		b = b[min(len(b), aligned(size)):]
	}
	return hops, nil
}

func newHop(index int, flags uint32, attrs map[uint16][]byte) hop {
	return hop{
		index:    index,
		gateway:  gateway(attrs),
		dead:     flags&unix.RTNH_F_DEAD != 0,
		linkdown: flags&unix.RTNH_F_LINKDOWN != 0,
	}
}

// gateway is RTA_GATEWAY, or RTA_VIA (a struct rtvia: family, then address) when
// it is of another family than the route.
func gateway(attrs map[uint16][]byte) netip.Addr {
	if via := attrs[unix.RTA_VIA]; len(via) > 2 {
		a, _ := netip.AddrFromSlice(via[2:])
		return a
	}
	a, _ := netip.AddrFromSlice(attrs[unix.RTA_GATEWAY])
	if a.IsUnspecified() {
		return netip.Addr{} // how some kernels say "none" for IPv6
	}
	return a
}

// onLink reads a struct rtmsg of a route to a network that is reached without a router: that of an interface, or what was
// added for it, as for each pod where it has no bridge (ip-route(8), "scope link"). It looks at the octets alone, as there may be
// a million routes.
func onLink(msg []byte) (d direct, ok bool) {
	if len(msg) < unix.SizeofRtMsg || msg[1] == 0 || msg[2] != 0 || msg[4] == unix.RT_TABLE_LOCAL || msg[7] != unix.RTN_UNICAST {
		return d, false
	}
	if flags := binary.NativeEndian.Uint32(msg[8:]); flags&unix.RTM_F_CLONED != 0 || family(msg[0]) == inet && msg[6] != unix.RT_SCOPE_LINK {
		return d, false
	}
	for b := msg[unix.SizeofRtMsg:]; len(b) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return d, false
		}
		switch binary.NativeEndian.Uint16(b[2:]) & attrTypeMask {
		case unix.RTA_DST:
			a, _ := netip.AddrFromSlice(b[unix.SizeofRtAttr:size])
			d.network = netip.PrefixFrom(a, int(msg[1])).Masked()
		case unix.RTA_OIF:
			index, _ := number(b[unix.SizeofRtAttr:size])
			d.index = int(index)
		case unix.RTA_GATEWAY, unix.RTA_VIA, unix.RTA_MULTIPATH:
			return d, false
		}
		b = b[min(len(b), aligned(size)):]
	}
	return d, d.network.IsValid()
}
