package dnsserver

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
)

// Direct has a Handler answer m as if a client had sent it over TCP, and no socket between them. It returns what the client would
// get, and the query as the Handler left it; a nil response: the Handler says nothing. An error is of a message that no client
// can send. What a server does around its Handler (who may ask, how much, what is answered on the wire) Direct does not.
func Direct(ctx context.Context, h Handler, m *dns.Msg, client, local netip.AddrPort) (*dns.Msg, *Query, error) {
	wire, err := m.Pack()
	if err != nil {
		return nil, nil, fmt.Errorf("packing a question: %w", err)
	}
	q, _, rcode := parseQuery(wire, client, local, TCP)
	if q == nil {
		return nil, nil, fmt.Errorf("reading a question: %s", dns.RcodeToString[rcode])
	}
	if rcode != dns.RcodeSuccess {
		q.Origin, q.faulty = OriginSelf, true
		return failure(q, rcode, why(rcode)), q, nil
	}
	response, err := h.ServeDNS(ctx, q)
	switch {
	case err != nil:
		q.failed = err
		return failure(q, dns.RcodeServerFailure, err), q, nil
	case response == nil:
		return nil, q, nil
	}
	return complete(q, response), q, nil
}

// A Refusal is what a client is told in place of an answer.
type Refusal struct {
	Msg *dns.Msg
	// OnlyOfMisses: what is answered from memory, or without anybody being asked, is answered all the same.
	OnlyOfMisses bool
}

// RefusalOf is what a client would be told to m at an address now, by Access and by what it has had; nil: it would be answered. Nothing
// is counted by that.
func (s *Server) RefusalOf(m *dns.Msg, client, local netip.AddrPort) (*Refusal, error) {
	wire, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("packing a question: %w", err)
	}
	access, addr := s.access.Load(), client.Addr()
	why, rcode := access.wouldDeny(local, addr), dns.RcodeRefused
	isHost := access.isHost(addr)
	if why == allowed && !isHost {
		free := int(s.shared.Load() - s.counters.inFlight.Load())
		switch {
		case s.spending.Over(addr):
			why, rcode = costly, dns.RcodeServerFailure
		case s.shares.Count(addr) >= max(free, fewPlaces):
			why, rcode = crowding, dns.RcodeServerFailure
		}
	}
	if why == allowed {
		return nil, nil
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(explained(wire, rcode, dns.MaxMsgSize, why)); err != nil {
		return nil, fmt.Errorf("reading a refusal: %w", err)
	}
	return &Refusal{Msg: reply, OnlyOfMisses: rcode == dns.RcodeServerFailure}, nil
}
