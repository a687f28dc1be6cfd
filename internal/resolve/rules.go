package resolve

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// filterAddresses implements dnsmasq's filter-A and filter-AAAA. It removes these records from
// answers, including the cluster's, which dnsmasq gets from an upstream. The query is still
// resolved, so that names that do not exist get NXDOMAIN.
func filterAddresses(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	m, err := next.ServeDNS(ctx, q)
	if m != nil && (s.Options.FilterA || s.Options.FilterAAAA) {
		filterAnswers(m, s.Options)
	}
	return m, err
}

func stopAtFilters(_ *Resolver, s *state, _ *walk) verdict {
	return stopIf(s.Options.FilterA || s.Options.FilterAAAA)
}

// filterAnswers removes addresses from the answer section and adds EDE code 17 (RFC 8914), as
// dnsmasq does.
func filterAnswers(m *dns.Msg, o dnsmasqconf.Options) {
	before := len(m.Answer)
	m.Answer = slices.DeleteFunc(m.Answer, func(rr dns.RR) bool {
		rrtype := rr.Header().Rrtype
		if signature, ok := rr.(*dns.RRSIG); ok {
			rrtype = signature.TypeCovered
		}
		return rrtype == dns.TypeA && o.FilterA || rrtype == dns.TypeAAAA && o.FilterAAAA
	})
	if len(m.Answer) < before {
		m.AuthenticatedData = false
		dnsserver.Explain(m, dns.ExtendedErrorCodeFiltered, "")
	}
}

// refuseWindows implements dnsmasq's filterwin2k: queries that Windows sends all the time get
// NXDOMAIN.
func refuseWindows(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if !s.Options.FilterWin2K || !asksAsWindows(q.Msg.Question[0]) {
		return next.ServeDNS(ctx, q)
	}
	return ruled(q, dns.RcodeSuccess), nil
}

func stopAtWindows(_ *Resolver, s *state, w *walk) verdict {
	qtype := w.q.Type()
	return stopIf(s.Options.FilterWin2K && (qtype == dns.TypeSOA || qtype == dns.TypeSRV || qtype == dns.TypeANY))
}

// refusePrivate implements dnsmasq's bogus-priv: reverse queries for private addresses are not sent
// upstream unless there is a route for them.
func refusePrivate(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if !s.Options.BogusPrivate || q.Msg.Question[0].Qtype != dns.TypePTR || !isPrivate(q.Name) || next.r.isRouted(q.Name) {
		return next.ServeDNS(ctx, q)
	}
	return ruled(q, dns.RcodeNameError), nil
}

func stopAtPrivate(_ *Resolver, s *state, w *walk) verdict {
	return stopIf(s.Options.BogusPrivate && w.q.Type() == dns.TypePTR &&
		slices.ContainsFunc(privateNetworks, func(zone dnsname.Name) bool { return zone.Covers(w.name) }))
}

// ruled returns the answer of a rule.
func ruled(q *dnsserver.Query, rcode int) *dns.Msg {
	q.Origin = dnsserver.OriginRule
	m := reply(q, rcode)
	m.Authoritative = true
	return m
}

// asksAsWindows reports whether filterwin2k applies to a question (dnsmasq(8)).
func asksAsWindows(q dns.Question) bool {
	switch q.Qtype {
	case dns.TypeSOA, dns.TypeSRV:
		return true
	case dns.TypeANY:
		return strings.Contains(q.Name, "_")
	}
	return false
}

// isPrivate reports whether a name is the reverse name of a private address or network. Service
// names in a reverse zone (b._dns-sd._udp.0.0.168.192.in-addr.arpa) are not.
func isPrivate(name dnsname.Name) bool {
	return !name.IsZero() && slices.ContainsFunc(privateNetworks, name.Within) && !strings.Contains(name.String(), "_")
}

// privateNetworks lists the reverse zones of the networks that dnsmasq 2.90 treats as private: RFC
// 6303 section 4, and the old site-local addresses (RFC 3879). fc00::/8 is not included.
var privateNetworks = privateZones()

func privateZones() []dnsname.Name {
	var zones []dnsname.Name
	for _, network := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.2.0/24", "192.168.0.0/16", "198.51.100.0/24",
		"203.0.113.0/24", "255.255.255.255/32",
		"::/128", "::1/128", "2001:db8::/32", "fd00::/8", "fe80::/10", "fec0::/10",
	} {
		zones = append(zones, dnsname.ReverseZones(netip.MustParsePrefix(network))...)
	}
	return zones
}

// limitTTL implements dnsmasq's max-ttl, which limits the TTL that clients see and not the caching
// time.
func limitTTL(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	m, err := next.ServeDNS(ctx, q)
	highest := s.clientTTL()
	if m == nil || highest == 0 {
		return m, err
	}
	for _, section := range [...][]dns.RR{m.Answer, m.Ns} {
		for _, rr := range section {
			rr.Header().Ttl = min(rr.Header().Ttl, highest)
		}
	}
	return m, err
}

// serveMinimalAny answers ANY for names that other servers would answer, without querying them: ANY
// gives attackers with forged addresses the largest answers. The record is that of RFC 8482 section
// 4.2, which tells resolvers that this is an answer.
func serveMinimalAny(ctx context.Context, _ *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if q.Msg.Question[0].Qtype != dns.TypeANY {
		return next.ServeDNS(ctx, q)
	}
	q.Origin = dnsserver.OriginRule
	m := reply(q, dns.RcodeSuccess)
	m.Answer = []dns.RR{&dns.HINFO{
		Hdr: dns.RR_Header{Name: q.Msg.Question[0].Name, Rrtype: dns.TypeHINFO, Class: dns.ClassINET, Ttl: localTTL},
		Cpu: "RFC8482",
	}}
	return m, nil
}

func stopAtAny(_ *Resolver, _ *state, w *walk) verdict { return stopIf(w.q.Type() == dns.TypeANY) }

// subset returns the first RRset of an answer to ANY (RFC 8482 section 4.1).
func subset(answer []dns.RR) []dns.RR {
	if len(answer) == 0 {
		return answer
	}
	first := answer[0].Header().Rrtype
	return slices.DeleteFunc(answer, func(rr dns.RR) bool { return rr.Header().Rrtype != first })
}
