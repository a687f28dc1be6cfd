package netstate

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// facts is everything that was read from the kernel, before any decision.
type facts struct {
	links  map[int]link
	addrs  []address
	rules  map[family][]rule
	routes map[family][]route // /0 routes only
	onLink []OnLink           // without interface names
}

// family is an address family as rtnetlink numbers it: AF_INET or AF_INET6.
type family uint8

// of reports whether a belongs to the family. The kernel never reports 4-in-6 addresses.
func (f family) of(a netip.Addr) bool {
	return a.IsValid() && a.Is4() == (f == inet)
}

type link struct {
	name         string
	group        uint32 // compared by "ip rule … suppress_ifgroup"
	up, loopback bool
}

type address struct {
	ip      netip.Addr
	index   int
	bits    int
	limited bool // scope smaller than global
	// second means either of two things, because IFA_F_SECONDARY is one flag: not the address that
	// the kernel prefers for its prefix (IPv4), or a privacy address, which is gone tomorrow
	// (IPv6).
	second, deprecated, tentative, dadFailed bool
}

// rule is one line of ip-rule(8).
type rule struct {
	priority     uint32
	action       uint8
	table        uint32
	target       uint32 // of a goto
	conditional  bool   // the rule does not match every packet of this node
	noDefaults   bool   // suppress_prefixlength: the rule finds no /0 route
	withoutGroup uint32 // suppress_ifgroup: the rule finds no route over this group
	hasGroup     bool
}

type route struct {
	table, metric uint32
	pref          uint8 // RFC 4191 router preference
	source        netip.Addr
	hops          []hop
}

type hop struct {
	index          int
	gateway        netip.Addr
	dead, linkdown bool
}

// Address families, and constants of <linux/fib_rules.h> and <linux/netlink.h> that package unix
// lacks.
const (
	inet  family = unix.AF_INET
	inet6 family = unix.AF_INET6

	fraSuppressIfgroup   = 13
	fraSuppressPrefixlen = 14
	fibRuleInvert        = 0x2

	attrTypeMask = 0x3fff // NLA_TYPE_MASK: without the "nested" and "byte order" bits
)

var errShort = errors.New("message is too short")

// attributes splits a message into its fixed header and its attributes (rtnetlink(7)). It does not
// use nl.ParseRouteAttr (1.3.1), which panics if the last attribute is not padded. FuzzDecode found
// that.
func attributes(msg []byte, header int) (map[uint16][]byte, error) {
	if len(msg) < header {
		return nil, errShort
	}
	attrs := map[uint16][]byte{}
	for b := msg[header:]; len(b) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return nil, errShort
		}
		attrs[binary.NativeEndian.Uint16(b[2:])&attrTypeMask] = b[unix.SizeofRtAttr:size]
		b = b[min(len(b), aligned(size)):]
	}
	return attrs, nil
}

// aligned is RTA_ALIGN of rtnetlink(3).
func aligned(size int) int { return (size + 3) &^ 3 }

func number(b []byte) (uint32, bool) {
	if len(b) < 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(b), true
}

// decodeLink reads a struct ifinfomsg of RTM_NEWLINK.
func decodeLink(msg []byte) (index int, l link, err error) {
	attrs, err := attributes(msg, unix.SizeofIfInfomsg)
	if err != nil {
		return 0, link{}, err
	}
	flags := binary.NativeEndian.Uint32(msg[8:])
	l.name = unix.ByteSliceToString(attrs[unix.IFLA_IFNAME])
	l.group, _ = number(attrs[unix.IFLA_GROUP])
	l.up = flags&unix.IFF_UP != 0
	l.loopback = flags&unix.IFF_LOOPBACK != 0
	return int(int32(binary.NativeEndian.Uint32(msg[4:]))), l, nil
}

// decodeAddress reads a struct ifaddrmsg of RTM_NEWADDR. On a point-to-point
// interface IFA_ADDRESS is the peer and IFA_LOCAL the node; IPv6 addresses have
// no IFA_LOCAL unless they have a peer.
func decodeAddress(msg []byte) (address, error) {
	attrs, err := attributes(msg, unix.SizeofIfAddrmsg)
	if err != nil {
		return address{}, err
	}
	raw, ok := attrs[unix.IFA_LOCAL]
	if !ok {
		raw = attrs[unix.IFA_ADDRESS]
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok {
		return address{}, errShort
	}
	flags, ok := number(attrs[unix.IFA_FLAGS])
	if !ok {
		flags = uint32(msg[2]) // kernels before 3.14
	}
	return address{
		ip:         ip,
		index:      int(binary.NativeEndian.Uint32(msg[4:])),
		bits:       int(msg[1]),
		limited:    msg[3] != unix.RT_SCOPE_UNIVERSE,
		second:     flags&unix.IFA_F_SECONDARY != 0,
		deprecated: flags&unix.IFA_F_DEPRECATED != 0,
		tentative:  flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0,
		dadFailed:  flags&unix.IFA_F_DADFAILED != 0,
	}, nil
}

// decodeRule reads a struct fib_rule_hdr of RTM_NEWRULE.
func decodeRule(msg []byte) (rule, error) {
	attrs, err := attributes(msg, unix.SizeofRtMsg)
	if err != nil {
		return rule{}, err
	}
	r := rule{action: msg[7], table: uint32(msg[4])}
	if table, ok := number(attrs[nl.FRA_TABLE]); ok {
		r.table = table
	}
	r.priority, _ = number(attrs[nl.FRA_PRIORITY])
	r.target, _ = number(attrs[nl.FRA_GOTO])
	if n, ok := number(attrs[fraSuppressPrefixlen]); ok && n != ^uint32(0) {
		r.noDefaults = true
	}
	if n, ok := number(attrs[fraSuppressIfgroup]); ok && n != ^uint32(0) {
		r.withoutGroup, r.hasGroup = n, true
	}
	r.conditional = conditional(msg, attrs)
	return r, nil
}

// conditional reports whether the rule does not match every packet that this node sends. An unknown
// attribute counts as a condition: the kernel has gained new ones (dscp in 6.13, flowlabel in
// 6.14).
func conditional(msg []byte, attrs map[uint16][]byte) bool {
	dstLen, srcLen, tos := msg[1], msg[2], msg[3]
	if dstLen != 0 || srcLen != 0 || tos != 0 {
		return true
	}
	if binary.NativeEndian.Uint32(msg[8:])&fibRuleInvert != 0 {
		return true
	}
	for kind, value := range attrs {
		switch kind {
		case nl.FRA_PRIORITY, nl.FRA_TABLE, nl.FRA_GOTO, nl.FRA_PROTOCOL, nl.FRA_FLOW, nl.FRA_PAD,
			fraSuppressPrefixlen, fraSuppressIfgroup:
		case nl.FRA_IIFNAME:
			// "iif lo" matches the node's own packets, ip-rule(8).
			if unix.ByteSliceToString(value) != "lo" {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// isDefault reports whether a struct rtmsg is a default route for every packet: a /0 that is not
// source-specific, not for one type of service, does not drop packets and is not a cache entry. The
// routes 0.0.0.0/1 and 128.0.0.0/1, with which a VPN covers the default route without replacing it,
// do not count.
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

// decodeHops decodes RTA_MULTIPATH: a list of struct rtnexthop, each with its own attributes.
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

// gateway returns RTA_GATEWAY, or RTA_VIA (a struct rtvia: family, then address) if the gateway's
// family differs from the route's.
func gateway(attrs map[uint16][]byte) netip.Addr {
	if via := attrs[unix.RTA_VIA]; len(via) > 2 {
		a, _ := netip.AddrFromSlice(via[2:])
		return a
	}
	a, _ := netip.AddrFromSlice(attrs[unix.RTA_GATEWAY])
	if a.IsUnspecified() {
		return netip.Addr{} // some kernels use it for "none" with IPv6
	}
	return a
}

// onLink decodes a struct rtmsg of a route to a network without a router: an interface's own
// network, or one that was added, such as one for each pod if there is no bridge (ip-route(8),
// "scope link"). It reads only fixed offsets, because there may be a million routes.
func onLink(msg []byte) (d OnLink, ok bool) {
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
			d.Network = netip.PrefixFrom(a, int(msg[1])).Masked()
		case unix.RTA_OIF:
			index, _ := number(b[unix.SizeofRtAttr:size])
			d.Index = int(index)
		case unix.RTA_GATEWAY, unix.RTA_VIA, unix.RTA_MULTIPATH:
			return d, false
		}
		b = b[min(len(b), aligned(size)):]
	}
	return d, d.Network.IsValid()
}
