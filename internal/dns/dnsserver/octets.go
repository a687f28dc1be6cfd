package dnsserver

import (
	"encoding/binary"
)

const (
	headerSize = 12 // RFC 1035 section 4.1.1
	maxName    = 255
	maxLabel   = 63
)

// Bits of the flags word of the header (RFC 1035 section 4.1.1, RFC 4035 section 3.2.2).
const (
	bitQR      = 1 << 15
	maskOpcode = 0xf << 11
	bitTC      = 1 << 9
	bitRD      = 1 << 8
	bitRA      = 1 << 7
	bitCD      = 1 << 4
)

func count(wire []byte, at int) uint16 { return binary.BigEndian.Uint16(wire[at:]) }

// questionEnd returns the offset of the end of the question, or 0 if the message does not have
// exactly one complete question. The name must not be compressed: no earlier name exists that a
// pointer could refer to.
func questionEnd(wire []byte) int {
	if count(wire, 4) != 1 {
		return 0
	}
	at := headerSize
	for at < len(wire) {
		size := int(wire[at])
		if size > maxLabel {
			return 0
		}
		at += 1 + size
		if at-headerSize > maxName {
			return 0
		}
		if size == 0 {
			end := at + 4 // type and class
			if end > len(wire) {
				return 0
			}
			return end
		}
	}
	return 0
}
