package resolve

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// serveLocalData answers names in dnsmasq's files and in hosts files. Other types of these names
// are queried further down the list, but an NXDOMAIN from there is ignored.
func serveLocalData(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if s.Local.IsEmpty() {
		return next.ServeDNS(ctx, q)
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
	m, err := next.ServeDNS(ctx, q)
	if m != nil && m.Rcode == dns.RcodeNameError && s.Local.Exists(q.Name) {
		m.Rcode, m.AuthenticatedData = dns.RcodeSuccess, false
	}
	return m, err
}

func stopAtLocalData(_ *Resolver, s *state, w *walk) verdict {
	return stopIf(w.name != nil && s.Local.Concerns(w.name))
}

// near returns the network of our local address. Clients get addresses in that network first
// (localise-queries in dnsmasq, IPv4 only). It returns the zero Prefix if there is none.
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

// routedLabels returns the number of labels of the most specific domain above a name that has its
// own source of answers: a route or the cluster.
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
