package firewall

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// iptables-nft, the iptables of RHEL 8 and later, embeds matches and targets of iptables for which
// nf_tables has no expression. Their data are the C structures in linux/netfilter/xt_*.h, in native
// byte order.

// target runs a target of iptables. ACCEPT, DROP and jumps are not targets here, but verdicts.
func (s *step) target(a attributes) truth {
	switch a.text(unix.NFTA_TARGET_NAME) {
	case "REJECT":
		s.verdict = verdict{kind: finally, end: drops}
	case "LOG", "NFLOG", "AUDIT", "MARK", "CONNMARK", "TRACE", "CHECKSUM", "CLASSIFY", "SECMARK", "CONNSECMARK":
		// The next rule follows.
	default:
		s.verdict = verdict{kind: anything}
	}
	return yes
}

// extension runs a match of iptables.
func (s *step) extension(a attributes) truth {
	info, revision := a[unix.NFTA_MATCH_INFO], a.orZero(unix.NFTA_MATCH_REV)
	switch name := a.text(unix.NFTA_MATCH_NAME); {
	case name == "comment":
		return yes
	case name == "udp":
		return s.udpMatch(info)
	case name == "tcp":
		return s.tcpMatch(info)
	case name == "multiport" && revision == 1:
		return s.multiportMatch(info)
	case name == "conntrack" && revision >= 2:
		return conntrackMatch(info)
	case name == "addrtype" && revision == 1:
		return addrtypeMatch(info)
	}
	return maybe
}

// words returns 16-bit numbers of a C structure. Missing ones are 0.
func words(info []byte, at, count int) []uint16 {
	all := make([]uint16, count)
	for i := range all {
		if from := at + 2*i; from+2 <= len(info) {
			all[i] = binary.NativeEndian.Uint16(info[from:])
		}
	}
	return all
}

// portsMatch evaluates the start of struct xt_udp and xt_tcp: the range of source ports, and that
// of destination ports.
func (s *step) portsMatch(info []byte, inverted byte) truth {
	w := words(info, 0, 4)
	inside := w[2] <= s.packet.Port && s.packet.Port <= w[3]
	const invertSource, invertDestination = 1, 2
	switch {
	case inside == (inverted&invertDestination != 0):
		return no
	case w[0] != 0 || w[1] != 0xffff || inverted&invertSource != 0: // the source port is unknown
		return maybe
	}
	return yes
}

// udpMatch evaluates struct xt_udp: four ports, and inversion flags.
func (s *step) udpMatch(info []byte) truth {
	if s.packet.Protocol != unix.IPPROTO_UDP {
		return no
	}
	if len(info) < 9 {
		return maybe
	}
	return s.portsMatch(info, info[8])
}

// tcpMatch evaluates struct xt_tcp: four ports, an option, a mask and a value for the TCP flags,
// and inversion flags.
func (s *step) tcpMatch(info []byte) truth {
	if s.packet.Protocol != unix.IPPROTO_TCP {
		return no
	}
	if len(info) < 12 {
		return maybe
	}
	option, mask, want, inverted := info[8], info[9], info[10], info[11]
	const invertFlags, invertOption = 4, 8
	switch ports := s.portsMatch(info, inverted); {
	case ports == no, (synFlag&mask == want) == (inverted&invertFlags != 0):
		return no
	case ports == maybe, option != 0, inverted&invertOption != 0:
		return maybe
	}
	return yes
}

// multiportMatch evaluates struct xt_multiport_v1: the direction, the number of ports, 15 ports, 15
// flags for the start of a range, and an inversion flag.
func (s *step) multiportMatch(info []byte) truth {
	const most, destination = 15, 1
	if len(info) < 2+2*most+most+1 || info[0] != destination || info[1] > most {
		return maybe
	}
	ports, begins := words(info, 2, int(info[1])), info[2+2*most:]
	found := false
	for i := 0; i < len(ports); i++ {
		from := ports[i]
		if begins[i] != 0 && i+1 < len(ports) {
			i++
		}
		found = found || from <= s.packet.Port && s.packet.Port <= ports[i]
	}
	return truthOf(found != (begins[most] != 0))
}

// conntrackMatch evaluates struct xt_conntrack_mtinfo2 and its successor if they compare only the
// state. States have the same numbers as in nf_tables.
func conntrackMatch(info []byte) truth {
	const atFlags = 8*16 + 2*4 + 5*2 // after four addresses with their masks, two times, a protocol and four ports
	const byState, otherName = 0x1, 0x2000
	w := words(info, atFlags, 3)
	if len(info) < atFlags+6 || w[0]&^otherName != byState {
		return maybe
	}
	return truthOf((w[2]&stateNew != 0) != (w[1]&byState != 0))
}

// addrtypeMatch evaluates struct xt_addrtype_info_v1 if it compares only the destination, which is
// this host.
func addrtypeMatch(info []byte) truth {
	const invertDestination = 2
	w := words(info, 0, 2)
	if len(info) < 8 || w[0] != 0 {
		return maybe
	}
	flags := binary.NativeEndian.Uint32(info[4:])
	if flags&^invertDestination != 0 {
		return maybe
	}
	return truthOf((w[1]&(1<<unix.RTN_LOCAL) != 0) != (flags != 0))
}
