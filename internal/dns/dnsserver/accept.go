package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// verdict is what the header and the question alone decide.
type verdict int

const (
	drop   verdict = iota // no response
	refuse                // a response that Server.refuse makes
	parse                 // worth parsing
)

// accept looks at a received message before anything is spent on it. The rcode
// is for refuse; NOERROR is for who asks for a cookie alone.
//
// What is no query is not answered, so that two nameservers cannot be made to
// talk to each other (RFC 1035 section 7.3). Opcodes other than QUERY are never
// passed on: a NOTIFY that reached an upstream cleared a cache (PowerDNS 2025-08).
func accept(wire []byte) (v verdict, rcode int) {
	if len(wire) < headerSize {
		return drop, 0
	}
	bits := binary.BigEndian.Uint16(wire[2:])
	switch {
	case bits&bitQR != 0:
		return drop, 0
	case bits&maskOpcode != dns.OpcodeQuery<<11:
		return refuse, dns.RcodeNotImplemented
	case asksForCookie(wire):
		return refuse, dns.RcodeSuccess
	case questionEnd(wire) == 0:
		return refuse, dns.RcodeFormatError // RFC 9619: exactly one question
	case count(wire, 6) != 0, count(wire, 8) != 0:
		return refuse, dns.RcodeFormatError // a query asks, it does not answer
	}
	return parse, 0
}

// errorReply is the response to a message that is refused unparsed: its ID and
// opcode, the question octet by octet when it can be found, and an OPT record when
// there is one in it: without, the client would take us for a server that knows no
// EDNS, and not for one that found a fault (RFC 6891 section 7). It is no longer
// than what was asked.
func errorReply(wire []byte, rcode int) []byte {
	end := questionEnd(wire)
	questions := 1
	if end == 0 {
		end, questions = headerSize, 0
	}
	reply := append(make([]byte, 0, end+optFixed), wire[:end]...)
	bits := binary.BigEndian.Uint16(wire[2:]) & (maskOpcode | bitRD | bitCD)
	binary.BigEndian.PutUint16(reply[2:], bits|bitQR|bitRA|uint16(rcode&0xf))
	binary.BigEndian.PutUint16(reply[4:], uint16(questions))
	clear(reply[6:headerSize])
	if opt := findOPT(wire); opt > 0 {
		reply[11] = 1
		reply = append(reply, 0, 0, byte(dns.TypeOPT), udpSize>>8, udpSize&0xff, byte(rcode>>4), 0, wire[opt-4]&optDO, 0, 0, 0)
	}
	return reply
}
