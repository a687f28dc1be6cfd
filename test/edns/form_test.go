package edns

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/miekg/dns"
)

// Bits of the second 16 bits of a header: RFC 1035 section 4.1.1, RFC 4035 section 3.2.
const (
	qr = 1 << 15
	aa = 1 << 10
	tc = 1 << 9
	rd = 1 << 8
	ra = 1 << 7
	z  = 1 << 6
	ad = 1 << 5
	cd = 1 << 4

	opcode = 1 << 11 // unit of the opcode
)

// do is a bit in an OPT record's TTL: RFC 3225.
const do = 1 << 15

// message builds a message with that header. Its ID is 0 and is replaced when it is sent.
func message(bits int, qd, an, ns, ar uint16, parts ...[]byte) []byte {
	wire := []byte{0, 0, byte(bits >> 8), byte(bits)}
	for _, n := range [...]uint16{qd, an, ns, ar} {
		wire = binary.BigEndian.AppendUint16(wire, n)
	}
	return append(wire, bytes.Join(parts, nil)...)
}

// query builds a message with one question, RD, and these additional records.
func query(question []byte, additional ...[]byte) []byte {
	return message(rd, 1, 0, 0, uint16(len(additional)), append([][]byte{question}, additional...)...)
}

// question builds a question for a name of class IN.
func question(name string, qtype uint16) []byte { return questionOf(name, qtype, dns.ClassINET) }

func questionOf(name string, qtype, class uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(octetsOf(name), qtype), class)
}

// octetsOf encodes a name in zone-file syntax.
func octetsOf(name string) []byte {
	wire := make([]byte, 256)
	end, err := dns.PackDomainName(name, wire, 0, nil, false)
	if err != nil {
		panic(err)
	}
	return wire[:end]
}

// opt builds an OPT record: RFC 6891 section 6.1.2. The flags are its TTL.
func opt(size uint16, flags uint32, options ...[]byte) []byte {
	wire := []byte{0, 0, byte(dns.TypeOPT)}
	wire = binary.BigEndian.AppendUint16(wire, size)
	wire = binary.BigEndian.AppendUint32(wire, flags)
	data := bytes.Join(options, nil)
	return append(binary.BigEndian.AppendUint16(wire, uint16(len(data))), data...)
}

// option builds an option of an OPT record, with data in hexadecimal.
func option(code uint16, data string) []byte {
	wire := unhex(data)
	return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, code), uint16(len(wire))), wire...)
}

func unhex(text string) []byte {
	wire, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return wire
}

// Names. The first label of each is replaced for each message.
const (
	one         = placeholder + ".t.example."
	twenty      = placeholder + ".twenty.t.example."
	sixty       = placeholder + ".sixty.t.example."
	hundred     = placeholder + ".hundred.t.example."
	nineHundred = placeholder + ".ninehundred.t.example."
	signed      = placeholder + ".signed.t.example."
	nothing     = placeholder + ".none.t.example." // NODATA for A
	nowhere     = placeholder + ".nowhere.example."
)

// www is the question of most rows.
var www = question(one, dns.TypeA)

// stray is an address record of class IN that does not belong in a query.
var stray = unhex("c00c 0001 0001 0000003c 0004 06060606")
