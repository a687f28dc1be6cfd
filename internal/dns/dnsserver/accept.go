package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

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

// Limits for error responses over UDP, whose source addresses may be forged. Above errorsPerSecond
// for one network, only one response in slip is sent, so that a genuine client still learns what is
// wrong. This corresponds to errors-per-second and slip in BIND, where an error cannot be truncated
// either ("Response Rate Limiting" in the BIND 9 Administrator Reference Manual).
const (
	errorsPerSecond = 100
	errorBits4      = 24
	errorBits6      = 56
	slip            = 10
)

// mayRefuse reports whether an error response may be sent to the apparent client. It is rate
// limited unless the client has proved its address.
func (r *responder) mayRefuse(x exchange) bool {
	a, client := r.access.Load(), x.client.Addr()
	// A TCP client has proved its address.
	if x.proto == TCP || a == nil || a.Host.Contains(client) || r.errors.Allow(client) || r.knows(x) {
		return true
	}
	r.counters.silenced.Add(1)
	return r.limited.Add(1)%slip == 0
}

// deny returns the response to a query that is denied; nil means no response.
func (r *responder) deny(x exchange, why denial) []byte {
	r.count(why, &r.counters.stranger, x.client.Addr())
	if !r.mayRefuse(x) {
		return nil
	}
	room := len(x.wire) // send no more than the apparent client sent
	if x.proto == TCP {
		room = dns.MaxMsgSize
	}
	return explained(x.wire, dns.RcodeRefused, room, why)
}

// refuse returns the response to a malformed query, or with NOERROR to a cookie request; nil means
// no response.
func (r *responder) refuse(x exchange, rcode int) []byte {
	if !r.mayRefuse(x) {
		return nil
	}
	if rcode == dns.RcodeSuccess {
		return r.cookieReply(x)
	}
	return errorReply(x.wire, rcode)
}

// count counts a denial, and records the client of some of them.
func (r *responder) count(why denial, who *atomic.Pointer[netip.Addr], client netip.Addr) {
	if n := r.counters.denied(why).Add(1); n&(n-1) == 0 {
		who.Store(&client)
	}
}

// crowd returns the response to a client that exceeds its share of the slots or of upstream
// traffic.
func (r *responder) crowd(x exchange, why denial) []byte {
	r.count(why, &r.counters.crowder, x.client.Addr())
	return explained(x.wire, dns.RcodeServerFailure, int(r.largest.Load()), why)
}

// explained returns errorReply with as much of the explanation as room allows, if the query has an
// OPT record.
func explained(wire []byte, rcode, room int, why denial) []byte {
	const option = 4 + 2 // RFC 8914 section 2
	reply := errorReply(wire, rcode)
	code, text := why.explanation()
	size := option + len(text)
	room -= len(reply)
	switch {
	case reply[11] == 0 || room < option:
		return reply
	case room < size:
		size, text = option, ""
	}
	binary.BigEndian.PutUint16(reply[len(reply)-2:], uint16(size))
	reply = binary.BigEndian.AppendUint16(reply, dns.EDNS0EDE)
	reply = binary.BigEndian.AppendUint16(reply, uint16(size-4))
	reply = binary.BigEndian.AppendUint16(reply, code)
	return append(reply, text...)
}
