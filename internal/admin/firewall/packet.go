package firewall

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Packet is the first packet of a conversation with this host: a UDP datagram or a TCP SYN.
type Packet struct {
	Interface   string // interface on which it arrives
	Index       int    // index of the interface
	Source      netip.Addr
	Destination netip.Addr // in the same address family as Source
	Port        uint16     // destination port
	Protocol    uint8      // IPPROTO_UDP or IPPROTO_TCP
}

// octets are data of which some bytes may be unknown, such as a checksum.
type octets struct {
	data  []byte
	known []bool
}

func newOctets(size int) octets { return octets{make([]byte, size), make([]bool, size)} }

func (o octets) set(at int, data ...byte) {
	for i, b := range data {
		o.data[at+i], o.known[at+i] = b, true
	}
}

// network returns the IPv4 (RFC 791) or IPv6 (RFC 8200) header, as far as it is known.
func (p Packet) network() octets {
	if p.Source.Is4() {
		o := newOctets(20)
		o.set(0, 0x45)
		o.set(9, p.Protocol)
		o.set(12, p.Source.AsSlice()...)
		o.set(16, p.Destination.AsSlice()...)
		return o
	}
	o := newOctets(40)
	o.set(6, p.Protocol)
	o.set(8, p.Source.AsSlice()...)
	o.set(24, p.Destination.AsSlice()...)
	return o
}

// synFlag is the SYN flag of TCP (RFC 9293).
const synFlag = 0x02

// transport returns the UDP or TCP header. The source port is unknown.
func (p Packet) transport() octets {
	o := newOctets(8)
	if p.Protocol == unix.IPPROTO_TCP {
		o = newOctets(20)
		o.set(13, synFlag)
	}
	o.set(2, binary.BigEndian.AppendUint16(nil, p.Port)...)
	return o
}

// isSeenBy reports whether tables of a family see the packet.
func (p Packet) isSeenBy(f Family) bool {
	return f == Inet || f == IPv4 && p.Source.Is4() || f == IPv6 && p.Source.Is6()
}

// registers are the kernel's 64 bytes for loaded values, addressed as 4 registers of 16 bytes or 16
// of 4.
type registers struct {
	octets
}

func newRegisters() registers {
	return registers{newOctets(unix.NFT_REG32_COUNT * unix.NFT_REG32_SIZE)}
}

// at returns a register's offset. ok is false if it does not exist or the value does not fit.
func (r registers) at(register uint32, size int) (offset int, ok bool) {
	switch {
	case register >= unix.NFT_REG_1 && register <= unix.NFT_REG_4:
		offset = int(register-unix.NFT_REG_1) * unix.NFT_REG_SIZE
	case register >= unix.NFT_REG32_00 && register <= unix.NFT_REG32_15:
		offset = int(register-unix.NFT_REG32_00) * unix.NFT_REG32_SIZE
	default:
		return 0, false
	}
	return offset, size >= 0 && offset+size <= len(r.data)
}

// load fills a register and, like the kernel, pads the last 4 bytes with zeros.
func (r registers) load(register uint32, from octets) bool {
	size := (len(from.data) + 3) &^ 3
	at, ok := r.at(register, size)
	if !ok {
		return false
	}
	r.set(at, make([]byte, size)...)
	copy(r.data[at:], from.data)
	copy(r.known[at:], from.known)
	return true
}

// part returns a register's value. ok is false if the register does not exist.
func (r registers) part(register uint32, size int) (octets, bool) {
	at, ok := r.at(register, size)
	if !ok {
		return octets{}, false
	}
	return octets{r.data[at : at+size], r.known[at : at+size]}, true
}

// isKnown reports whether all bytes are known.
func (o octets) isKnown() bool {
	for _, known := range o.known {
		if !known {
			return false
		}
	}
	return true
}

// certain returns known bytes.
func certain(data ...byte) octets {
	o := newOctets(len(data))
	o.set(0, data...)
	return o
}

func native32(n uint32) octets { return certain(binary.NativeEndian.AppendUint32(nil, n)...) }
