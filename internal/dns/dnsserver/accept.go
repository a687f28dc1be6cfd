package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// verdict is the decision that accept makes from the header and the question alone.
type verdict int

const (
	drop   verdict = iota // send no response
	refuse                // send the response that Server.refuse makes
	parse                 // parse the message
)

// accept checks a received message before anything is spent on it. The rcode is for refuse; NOERROR
// stands for a query that only asks for a cookie.
//
// Messages that are not queries get no response, so that two nameservers cannot be made to talk to
// each other (RFC 1035 section 7.3). Opcodes other than QUERY are never forwarded: a NOTIFY that
// reached an upstream cleared a cache (PowerDNS 2025-08).
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
		return refuse, dns.RcodeFormatError // a query has no answer or authority records
	}
	return parse, 0
}

// errorReply returns the response to a message that is refused unparsed. It has the ID and opcode
// of the message, the question byte by byte if it can be found, and an OPT record if the message
// has one. Without the OPT record the client would conclude that the server does not support EDNS,
// not that it found a fault (RFC 6891 section 7). The response is no longer than the message.
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
