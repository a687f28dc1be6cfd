package dnsserver

import (
	"context"
	"fmt"
	"math"
	"net/netip"

	"github.com/miekg/dns"
)

// Direct passes m to a Handler as if a client had sent it over TCP, without a socket. It returns
// the response that the client would get, and the query as the Handler left it. A nil response
// means that the Handler sends none. An error means that no client can send m. Direct skips what a
// server does around its Handler: access checks, limits, the fast path and the limit on the text of
// Extended DNS Errors.
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
		return failureUpTo(q, rcode, why(rcode), math.MaxInt), q, nil
	}
	response, err := h.ServeDNS(ctx, q)
	switch {
	case err != nil:
		q.failed = err
		return failureUpTo(q, dns.RcodeServerFailure, err, math.MaxInt), q, nil
	case response == nil:
		return nil, q, nil
	}
	return completeUpTo(q, response, math.MaxInt), q, nil
}

// Refusal is the response that a client gets in place of an answer.
type Refusal struct {
	Msg *dns.Msg
	// OnlyOfMisses is set if queries are still answered from the cache or without an upstream.
	OnlyOfMisses bool
}

// RefusalOf returns the refusal that a client would now get for m at a local address because of
// Access or its share of the resources, or nil if m would be answered. The call does not count as a
// query.
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
