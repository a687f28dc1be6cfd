package helper

import (
	"math"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/intercept"
)

// probeMark marks the helper's own queries (SO_MARK). Connection tracking skips them, so that
// kube-proxy does not send them to the cluster's DNS pods before the rules are in place. It is
// "ndns" in ASCII.
const probeMark = 0x6e646e73

const port = 53

// chain is a base chain of the table.
type chain struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority nftables.ChainPriority
}

// The chains, in the order of creation. Those for translation come immediately before the chains of
// kube-proxy, and exist only while an address is translated, because old kernels lack nat in tables
// of family inet (Linux 5.2).
var (
	rawIn  = chain{"raw-prerouting", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, *nftables.ChainPriorityRaw}
	rawOut = chain{"raw-output", nftables.ChainTypeFilter, nftables.ChainHookOutput, *nftables.ChainPriorityRaw}
	// accepted comes after all other chains for packets to this host, and sent after those for
	// packets from it.
	accepted = chain{"accepted", nftables.ChainTypeFilter, nftables.ChainHookInput, math.MaxInt32}
	sent     = chain{"sent", nftables.ChainTypeFilter, nftables.ChainHookOutput, math.MaxInt32}
	natIn    = chain{"nat-prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, *nftables.ChainPriorityNATDest - 1}
	filterIn = chain{"filter-input", nftables.ChainTypeFilter, nftables.ChainHookInput, *nftables.ChainPriorityFilter}
	// natSource comes after the chains of kube-proxy, which may masquerade the same packets.
	natSource = chain{"nat-postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, *nftables.ChainPriorityNATSource + 1}
	natOut    = chain{"nat-output", nftables.ChainTypeNAT, nftables.ChainHookOutput, *nftables.ChainPriorityNATDest - 1}
)

// A rule is one rule of a chain.
type rule struct {
	chain chain
	exprs []expr.Any
}

// served is an address whose queries come to node-dns.
type served struct {
	addr netip.Addr
	mode intercept.Mode
	node netip.Addr // the target of a translation
}

// rulesFor returns the rules that intercept these addresses, and the one for the helper's own
// queries.
func rulesFor(list []served, by sockets) []rule {
	rules := []rule{{rawOut, []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(probeMark)},
		&expr.Notrack{},
	}}}
	for _, s := range list {
		for _, proto := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			if s.mode == intercept.Translated {
				to := translation(s.node)
				rules = append(rules,
					rule{natIn, append(match(s.addr, destination, proto), to...)},
					rule{natOut, append(match(s.addr, destination, proto), to...)})
				continue
			}
			for _, act := range arriving(by) {
				rules = append(rules, rule{rawIn, append(match(s.addr, destination, proto), act...)})
			}
			rules = append(rules,
				rule{rawOut, append(match(s.addr, destination, proto), &expr.Notrack{})},
				rule{accepted, append(match(s.addr, destination, proto), &expr.Counter{})},
				// The kernel protects this table, and not that of replyRules, from nft flush
				// ruleset.
				rule{rawOut, append(match(s.addr, source, proto), &expr.Counter{}, &expr.Notrack{})},
				rule{sent, append(match(s.addr, source, proto), &expr.Counter{})})
		}
	}
	return rules
}

// replyRules return the rules for node-dns's responses from these addresses. They are in a table
// that outlives the helper: after the other rules are gone, node-dns still answers queries that it
// has received. Tracked, such a response would clash with the client's earlier connections through
// kube-proxy, which gives it another port, so that the client drops it; or it would become a
// connection that bypasses kube-proxy's rules.
func replyRules(addrs []netip.Addr) []rule {
	var rules []rule
	for _, addr := range addrs {
		for _, proto := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			rules = append(rules, rule{rawOut, append(match(addr, source, proto), &expr.Notrack{})})
		}
	}
	return rules
}

// sourceRules return the rules for connections of this host's programs that leave it with such an
// address as their source: the kernel gives them the address that they query, because it is local,
// and kube-proxy translates that. They get the source that they would have without the helper, so
// that responses come back here.
func sourceRules(addrs []netip.Addr) []rule {
	var rules []rule
	for _, addr := range addrs {
		rules = append(rules, rule{natSource, append(matchAddr(addr, source),
			&expr.Meta{Key: expr.MetaKeyOIFTYPE, Register: 1},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint16(unix.ARPHRD_LOOPBACK)},
			&expr.Masq{})})
	}
	return rules
}

// portRules return the rules that keep pods from other ports of these addresses. kube-proxy has
// translated queries to the Service's other ports by then. Without these rules a pod that may use
// the address of the cluster's DNS Service, but not the node's, reaches programs of this host.
func portRules(addrs []netip.Addr) []rule {
	var rules []rule
	for _, addr := range addrs {
		for _, proto := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			exprs := match(addr, destination, proto)
			exprs[len(exprs)-1].(*expr.Cmp).Op = expr.CmpOpNeq // another port
			rules = append(rules, rule{filterIn, append(exprs,
				&expr.Meta{Key: expr.MetaKeyIIFTYPE, Register: 1},
				&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint16(unix.ARPHRD_LOOPBACK)},
				// Not the responses to this host's own connections: see sourceRules.
				&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
				&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW), Xor: make([]byte, 4)},
				&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
				&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH})})
		}
	}
	return rules
}

// side selects the source or the destination of a packet.
type side int

const (
	source side = iota
	destination
)

// match returns the expressions that match packets with this address and port 53 on one side.
func match(addr netip.Addr, on side, proto byte) []expr.Any {
	return append(matchAddr(addr, on),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
		// The ports come first in UDP's and TCP's headers: source, destination.
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2 * uint32(on), Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
	)
}

func matchAddr(addr netip.Addr, on side) []expr.Any {
	family, offset := byte(unix.NFPROTO_IPV4), uint32(12) // RFC 791 section 3.1
	if addr.Is6() {
		family, offset = unix.NFPROTO_IPV6, 8 // RFC 8200 section 3
	}
	if on == destination {
		offset += uint32(addr.BitLen() / 8)
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(addr.BitLen() / 8)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: addr.AsSlice()},
	}
}

// sockets is what the kernel tells rules about the socket that receives a packet, from less to
// more.
type sockets int

const (
	noSockets    sockets = iota // nothing
	anySockets                  // whether there is one (nft_socket, since Linux 4.18)
	boundSockets                // also whether it is bound to all addresses (since Linux 5.10)
)

// arriving returns the ends of the rules for packets of pods, in order. They exempt a packet from
// connection tracking while a socket of node-dns receives it, as far as the kernel can tell. A
// killed process loses its sockets as it ends: from then on, kube-proxy's rules apply, however late
// the helper notices. Sockets that systemd holds still match: queries wait there for the next
// process. This does not work in raw-output, where a packet has its sender's socket.
func arriving(by sockets) [][]expr.Any {
	exempt := []expr.Any{&expr.Counter{}, &expr.Notrack{}}
	if by == noSockets {
		return [][]expr.Any{exempt}
	}
	exempt = append([]expr.Any{
		&expr.Socket{Key: expr.SocketKeyTransparent, Register: 1}, // ends the rule if there is no socket
		&expr.Cmp{Op: expr.CmpOpLte, Register: 1, Data: []byte{1}},
	}, exempt...)
	if by == anySockets {
		return [][]expr.Any{exempt}
	}
	// A rule of its own, because it ends at the packets of a TCP handshake (nft_socket_eval).
	return [][]expr.Any{{
		&expr.Socket{Key: expr.SocketKeyWildcard, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{1}},
		&expr.Verdict{Kind: expr.VerdictReturn},
	}, exempt}
}

// translation returns the expressions that change the destination to port 53 of node.
func translation(node netip.Addr) []expr.Any {
	family := uint32(unix.NFPROTO_IPV4)
	if node.Is6() {
		family = unix.NFPROTO_IPV6
	}
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: node.AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: 1},
	}
}
