package resolve

import (
	"bytes"
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// localTTL is the TTL of what we answer by ourselves; it can only change with the program.
const localTTL = 3600

// ProbeZone is what the names of loop probes end in.
const ProbeZone = ".loop.node-dns."

// serveProbe answers our own loop probes, which came back.
func serveProbe(ctx context.Context, _ *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if !next.r.config.IsProbe(q.Name) {
		return next.answer(ctx, q)
	}
	q.Origin = dnsserver.OriginSelf
	return reply(q, dns.RcodeNameError), nil
}

func stopAtProbe(_ *Resolver, _ *state, w *walk) verdict {
	return stopIf(bytes.HasSuffix(w.name, []byte(ProbeZone)))
}

// serveLocalhost answers localhost, and names below it (RFC 6761 section 6.3).
func serveLocalhost(ctx context.Context, _ *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if !isLocalhost([]byte(q.Name.String())) {
		return next.answer(ctx, q)
	}
	q.Origin = dnsserver.OriginLocalhost
	m, question := reply(q, dns.RcodeSuccess), q.Msg.Question[0]
	m.Authoritative = true
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: localTTL}
	switch question.Qtype {
	case dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: header, A: netip.AddrFrom4([4]byte{127, 0, 0, 1}).AsSlice()}}
	case dns.TypeAAAA:
		m.Answer = []dns.RR{&dns.AAAA{Hdr: header, AAAA: netip.IPv6Loopback().AsSlice()}}
	}
	return m, nil
}

func stopAtLocalhost(_ *Resolver, _ *state, w *walk) verdict { return stopIf(isLocalhost(w.name)) }

func isLocalhost(name []byte) bool {
	return string(name) == "localhost." || bytes.HasSuffix(name, []byte(".localhost."))
}

// refusePlain is dnsmasq's domain-needed: addresses of a name without dots are not asked upstream, because a search list was forgotten
// or it is a typo. A route for just that name is an admin's word against it. The answer has no SOA record, so that no cache keeps it
// (RFC 2308 section 5): com. gets it too, and a cache that keeps it answers NXDOMAIN to every name below com. (RFC 8020).
func refusePlain(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	qtype := q.Msg.Question[0].Qtype
	isPlain := s.Config.DomainNeeded && q.Name.Labels() == 1 && (qtype == dns.TypeA || qtype == dns.TypeAAAA)
	if !isPlain || next.r.isRouted(q.Name) || s.Local.Exists(q.Name) {
		return next.answer(ctx, q)
	}
	q.Origin = dnsserver.OriginRule
	return reply(q, dns.RcodeNameError), nil
}

func stopAtPlain(_ *Resolver, s *state, w *walk) verdict {
	return stopIf(s.Config.DomainNeeded && len(w.name) > 0 && bytes.IndexByte(w.name, '.') == len(w.name)-1)
}

// isRouted reports whether a name has a route that is not the one for all names.
func (r *Resolver) isRouted(name dnsname.Name) bool {
	route, ok := r.forward.Match(name)
	return ok && !route.Domain.IsRoot()
}
