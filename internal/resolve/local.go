package resolve

import (
	"bytes"
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// localTTL is the TTL of our own constant answers, which can change only with a new program
// version.
const localTTL = 3600

// serveLocalhost answers localhost and names below it (RFC 6761 section 6.3).
func serveLocalhost(ctx context.Context, _ *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if !isLocalhost([]byte(q.Name.String())) {
		return next.ServeDNS(ctx, q)
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

// refusePlain implements dnsmasq's domain-needed: address queries for single-label names, which
// come from typos or a missing search list, are not sent upstream. A route for exactly that name
// overrides it. The answer has no SOA record, so that it is not cached (RFC 2308 section 5): it
// also applies to com., and a cache that keeps it would return NXDOMAIN for every name below com.
// (RFC 8020).
func refusePlain(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	qtype := q.Msg.Question[0].Qtype
	isPlain := s.Config.DomainNeeded && q.Name.Labels() == 1 && (qtype == dns.TypeA || qtype == dns.TypeAAAA)
	if !isPlain || next.r.isRouted(q.Name) || s.Local.Exists(q.Name) {
		return next.ServeDNS(ctx, q)
	}
	q.Origin = dnsserver.OriginRule
	return reply(q, dns.RcodeNameError), nil
}

func stopAtPlain(_ *Resolver, s *state, w *walk) verdict {
	return stopIf(s.Config.DomainNeeded && len(w.name) > 0 && bytes.IndexByte(w.name, '.') == len(w.name)-1)
}

// isRouted reports whether a name has a route other than the default route.
func (r *Resolver) isRouted(name dnsname.Name) bool {
	route, ok := r.forward.Match(name)
	return ok && !route.Domain.IsRoot()
}
