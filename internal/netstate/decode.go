package netstate

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Families, and what <linux/fib_rules.h> and <linux/netlink.h> have that package
// unix has not.
const (
	inet  family = unix.AF_INET
	inet6 family = unix.AF_INET6

	fraSuppressIfgroup   = 13
	fraSuppressPrefixlen = 14
	fibRuleInvert        = 0x2

	attrTypeMask = 0x3fff // NLA_TYPE_MASK: without the "nested" and "byte order" bits
)

var errShort = errors.New("message is too short")

// attributes splits a message into its fixed header and its attributes
// (rtnetlink(7)), by itself, because nl.ParseRouteAttr (1.3.1) panics when the
// last attribute is not padded; FuzzDecode found it.
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

// conditional reports whether the rule leaves out any packet that this node
// sends. An attribute that this code does not know is a condition: the kernel
// has grown new ones (dscp in 6.13, flowlabel in 6.14).
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
			// "iif lo" is what the node itself sends, ip-rule(8).
			if unix.ByteSliceToString(value) != "lo" {
				return true
			}
		default:
			return true
		}
	}
	return false
}
