package resolve

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// serveLocalData answers names that dnsmasq's files and hosts files have. Other types of these names are asked for further on; an
// NXDOMAIN from there is not believed.
func serveLocalData(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if s.Local.IsEmpty() {
		return next.answer(ctx, q)
	}
	if answer, ok := s.Local.Answer(q.Msg.Question[0], q.Name, next.r.routedLabels(s, q.Name), s.near(q.Local.Addr())); ok {
		if q.Msg.Question[0].Qtype == dns.TypeANY {
			answer = subset(answer)
		}
		q.Origin = dnsserver.OriginLocalData
		m := reply(q, dns.RcodeSuccess)
		m.Authoritative = true
		m.Answer = answer
		return m, nil
	}
	m, err := next.answer(ctx, q)
	if m != nil && m.Rcode == dns.RcodeNameError && s.Local.Exists(q.Name) {
		m.Rcode = dns.RcodeSuccess
	}
	return m, err
}

func stopAtLocalData(_ *Resolver, s *state, w *walk) verdict {
	return stopIf(w.name != nil && s.Local.Concerns(w.name))
}

// near is the network of an address of ours whose clients get the addresses on it first: dnsmasq's localise-queries, which is
// about IPv4 alone. The zero Prefix: there is none.
func (s *state) near(local netip.Addr) netip.Prefix {
	if !s.Options.Localise || !local.Unmap().Is4() {
		return netip.Prefix{}
	}
	for _, addr := range s.Net.Addrs {
		if addr.Addr == local.Unmap() {
			return netip.PrefixFrom(addr.Addr, addr.Bits).Masked()
		}
	}
	return netip.Prefix{}
}

// routedLabels is how many labels the domain has that answers a name by itself: a route's, or the cluster's.
func (r *Resolver) routedLabels(s *state, name dnsname.Name) int {
	longest := 0
	if route, ok := r.forward.Match(name); ok && !route.Plain {
		longest = route.Domain.Labels()
	}
	for _, apex := range s.Apexes {
		if name.Within(apex) {
			longest = max(longest, apex.Labels())
		}
	}
	return longest
}
