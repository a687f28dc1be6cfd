package dnstest

import (
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// ending is what happens to a connection after a reply.
type ending int

const (
	stays ending = iota
	closes
	resets
)

// reply is the complete reaction to one query.
type reply struct {
	delay    time.Duration
	messages []message
	ending   ending
}

type message struct {
	wire      []byte
	elsewhere bool // sent from another socket
}

// react records the query in wire and returns the reply. A message that is not a query with one
// question gets none.
func (s *Server) react(wire []byte, network string, client netip.AddrPort) reply {
	query := new(dns.Msg)
	if err := query.Unpack(wire); err != nil || query.Response || len(query.Question) != 1 {
		return reply{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(Query{Msg: query, Client: client, Network: network})
	o := s.orderLocked(query.Question[0].Name)
	return o.reply(wire, query, s.records.respond(query), network == "udp")
}

// reply puts the bad response, or none, before or in place of the right one.
func (o order) reply(asked []byte, query, right *dns.Msg, udp bool) reply {
	out := reply{delay: o.Delay}
	silent := o.Drop || o.DropOnEDNS && query.IsEdns0() != nil
	bad, spoilt := o.spoil(query, right, udp)
	switch {
	case silent:
	case o.Raw != nil && !(udp && o.Truncate):
		spoilt = true
		for _, wire := range o.Raw(asked) {
			out.messages = append(out.messages, message{wire: wire})
		}
	case spoilt:
		for i := range max(1, o.Copies) {
			out.messages = append(out.messages, message{o.wire(query, bad, udp, i), udp && o.WrongSource})
		}
	}
	if !spoilt && !silent || o.ThenOK {
		out.messages = append(out.messages, message{wire: pack(query, right, udp)})
	}
	switch {
	case udp && o.MaxUDP > 0:
		out.messages = slices.DeleteFunc(out.messages, func(m message) bool { return len(m.wire) > o.MaxUDP })
	case udp:
	case o.CloseTCP:
		out.messages, out.ending = nil, closes
	case o.ResetTCP:
		out.ending = resets
	}
	return out
}

// wire returns copy i of the bad response.
func (o order) wire(query, bad *dns.Msg, udp bool, i int) []byte {
	bad = bad.Copy()
	if o.WrongID {
		bad.Id = query.Id + 1 + uint16(i)
	}
	switch wire := pack(query, bad, udp); {
	case o.Empty:
		return nil
	case o.Garbage:
		return garbage(bad.Id)
	case udp && o.CutUDP:
		return wire[:len(wire)/2]
	default:
		return wire
	}
}

// garbage returns the header of a NOERROR response with one question and one answer, and a name
// that points to itself.
func garbage(id uint16) []byte {
	const pointer, self = 0xc0, 12
	header := []byte{byte(id >> 8), byte(id), 0x84, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}
	return append(header, pointer, self, 0xff, 0xff, 0xff)
}

// pack truncates a response to the size that the client accepts: the one in its OPT record, but at
// least 512 (RFC 6891 section 6.2.3).
func pack(query, response *dns.Msg, udp bool) []byte {
	size := dns.MaxMsgSize
	if udp {
		size = dns.MinMsgSize
		if opt := query.IsEdns0(); opt != nil {
			size = max(size, int(opt.UDPSize()))
		}
	}
	truncated := response.Truncated
	response.Truncate(size)
	response.Truncated = response.Truncated || truncated
	wire, err := response.Pack()
	if err != nil { // records that can be parsed but not packed
		wire, _ = new(dns.Msg).SetRcode(query, dns.RcodeServerFailure).Pack()
	}
	return wire
}
