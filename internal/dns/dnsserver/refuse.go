package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/miekg/dns"
)

// Responses that say no are for whoever a sender says that he is. More than these a second and network are not sent over UDP,
// but for one in slip, by which a client that means it learns what is the matter: BIND's errors-per-second and slip, of which
// an error cannot be cut short either ("Response Rate Limiting" in the BIND 9 Administrator Reference Manual).
const (
	errorsPerSecond = 100
	errorBits4      = 24
	errorBits6      = 56
	slip            = 10
)

// mayRefuse reports whether a response that says no may be sent to who seems to have asked: so often in a second, unless he has
// shown that he is there.
func (r *responder) mayRefuse(x exchange) bool {
	a, client := r.access.Load(), x.client.Addr()
	if x.proto == TCP || a == nil || a.Host.Contains(client) || r.errors.Allow(client) || r.knows(x) { // who has connected is who he says
		return true
	}
	r.counters.silenced.Add(1)
	return r.limited.Add(1)%slip == 0
}

// deny is the response to a query that is not looked at; nil: none is sent.
func (r *responder) deny(x exchange, why denial) []byte {
	r.count(why, &r.counters.stranger, x.client.Addr())
	if !r.mayRefuse(x) {
		return nil
	}
	room := len(x.wire) // nobody is sent more than he seems to have sent
	if x.proto == TCP {
		room = dns.MaxMsgSize
	}
	return explained(x.wire, dns.RcodeRefused, room, why)
}

// refuse is the response to a query that has a fault, or with NOERROR to one for a cookie; nil: none is sent.
func (r *responder) refuse(x exchange, rcode int) []byte {
	if !r.mayRefuse(x) {
		return nil
	}
	if rcode == dns.RcodeSuccess {
		return r.cookieReply(x)
	}
	return errorReply(x.wire, rcode)
}

// count counts a denial, and notes the client now and then.
func (r *responder) count(why denial, who *atomic.Pointer[netip.Addr], client netip.Addr) {
	if n := r.counters.denied(why).Add(1); n&(n-1) == 0 {
		who.Store(&client)
	}
}

// crowd is the response to a query of a client that has its share of the places, or of what upstream nameservers send.
func (r *responder) crowd(x exchange, why denial) []byte {
	r.count(why, &r.counters.crowder, x.client.Addr())
	return explained(x.wire, dns.RcodeServerFailure, int(r.largest.Load()), why)
}

// explained is errorReply with what of the explanation there is room for, where the query has an OPT record.
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
