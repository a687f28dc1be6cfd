package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/miekg/dns"
)

// Access says who may ask, and how often. It is not changed once a server has it.
type Access struct {
	// Clients may ask at every address that At does not have; nil: everyone may.
	Clients *Networks
	// At are the addresses where others may; nil: there are none.
	At map[netip.AddrPort]*Networks
	// Host are the addresses of this host, which nobody else can send from: no limit on responses that say no, nor Rate, is for
	// them.
	Host *Networks
	// Rate bounds the queries of one client in a second; 0: nothing does.
	Rate int

	limiter *Limiter // of Rate; nil: none
}

// Responses that say no are for whoever a sender says that he is. More than these a second and network are not sent over UDP,
// but for one in slip, by which a client that means it learns what is the matter: BIND's errors-per-second and slip, of which
// an error cannot be cut short either ("Response Rate Limiting" in the BIND 9 Administrator Reference Manual).
const (
	errorsPerSecond = 100
	errorBits4      = 24
	errorBits6      = 56
	slip            = 10
)

// SetAccess replaces who may ask; nil: everyone may, and is always told why not.
func (s *Server) SetAccess(a *Access) {
	if a != nil && a.Rate > 0 {
		limited := *a
		if old := s.access.Load(); old != nil && old.Rate == a.Rate {
			limited.limiter = old.limiter
		} else {
			limited.limiter = NewLimiter(a.Rate, 32, 128)
		}
		a = &limited
	}
	s.access.Store(a)
}

// denial is why a query is not looked at.
type denial int

const (
	allowed  denial = iota // it is
	stranger               // the client may not ask here
	hasty                  // it asks more often than Access.Rate
	crowding               // it has more than its share of the places
	costly                 // it has had more than its share of what upstream nameservers send
)

// explanation is the Extended DNS Error of a denial: RFC 8914 section 4.
func (d denial) explanation() (code uint16, text string) {
	switch d {
	case stranger:
		return dns.ExtendedErrorCodeProhibited, "this network may not ask here"
	case hasty:
		return dns.ExtendedErrorCodeOther, "too many queries a second"
	case crowding:
		return dns.ExtendedErrorCodeOther, "too many queries of yours wait for an answer"
	case costly:
		return dns.ExtendedErrorCodeOther, "the answers to your queries are too large for so many"
	}
	return dns.ExtendedErrorCodeOther, ""
}

func (c *counters) denied(d denial) *atomic.Uint64 {
	switch d {
	case stranger:
		return &c.strangers
	case hasty:
		return &c.hasty
	case costly:
		return &c.costly
	}
	return &c.crowding
}

// denies says whether a client may ask at an address, and why not.
func (a *Access) denies(local netip.AddrPort, client netip.Addr) denial {
	if a == nil {
		return allowed
	}
	switch {
	case !a.Allows(local, client):
		return stranger
	case a.limiter != nil && !a.Host.Contains(client) && !a.limiter.Allow(client):
		return hasty
	}
	return allowed
}

// Allows reports whether a client may ask at an address that is listened on, however often.
func (a *Access) Allows(local netip.AddrPort, client netip.Addr) bool {
	who := a.Clients
	if len(a.At) > 0 {
		if others, ok := a.At[local]; ok {
			who = others
		}
	}
	return who == nil || who.Contains(client)
}

// isHost reports whether a client is this host, which has no limits; nil: that is not known.
func (a *Access) isHost(client netip.Addr) bool { return a != nil && a.Host.Contains(client) }

// mayRefuse reports whether a response that says no may be sent to who seems to have asked: so often in a second, unless he has
// shown that he is there.
func (s *Server) mayRefuse(x exchange) bool {
	a, client := s.access.Load(), x.client.Addr()
	if x.proto == TCP || a == nil || a.Host.Contains(client) || s.errors.Allow(client) || s.knows(x) { // who has connected is who he says
		return true
	}
	s.counters.silenced.Add(1)
	return s.limited.Add(1)%slip == 0
}

// deny is the response to a query that is not looked at; nil: none is sent.
func (s *Server) deny(x exchange, why denial) []byte {
	s.count(why, &s.counters.stranger, x.client.Addr())
	if !s.mayRefuse(x) {
		return nil
	}
	room := len(x.wire) // nobody is sent more than he seems to have sent
	if x.proto == TCP {
		room = dns.MaxMsgSize
	}
	return explained(x.wire, dns.RcodeRefused, room, why)
}

// refuse is the response to a query that has a fault, or with NOERROR to one for a cookie; nil: none is sent.
func (s *Server) refuse(x exchange, rcode int) []byte {
	if !s.mayRefuse(x) {
		return nil
	}
	if rcode == dns.RcodeSuccess {
		return s.cookieReply(x)
	}
	return errorReply(x.wire, rcode)
}

// count counts a denial, and notes the client now and then.
func (s *Server) count(why denial, who *atomic.Pointer[netip.Addr], client netip.Addr) {
	if n := s.counters.denied(why).Add(1); n&(n-1) == 0 {
		who.Store(&client)
	}
}

// crowd is the response to a query of a client that has its share of the places, or of what upstream nameservers send.
func (s *Server) crowd(x exchange, why denial) []byte {
	s.count(why, &s.counters.crowder, x.client.Addr())
	return explained(x.wire, dns.RcodeServerFailure, int(s.largest.Load()), why)
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
