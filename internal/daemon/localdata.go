package daemon

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// serveLocalData answers what dnsmasq's files and hosts files say of names. What they do not say is asked further; that a name
// does not exist is not believed of one of theirs.
func (d *Daemon) serveLocalData(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	s := d.serving.Load()
	if s.Local.IsEmpty() {
		return d.serveFiltered(ctx, q)
	}
	if answer, ok := s.Local.Answer(q.Msg.Question[0], q.Name, d.routedLabels(s, q.Name), s.near(q.Local.Addr())); ok {
		if q.Msg.Question[0].Qtype == dns.TypeANY {
			answer = subset(answer)
		}
		q.Origin = dnsserver.OriginLocalData
		m := reply(q, dns.RcodeSuccess)
		m.Authoritative = true
		m.Answer = answer
		return m, nil
	}
	m, err := d.serveFiltered(ctx, q)
	if m != nil && m.Rcode == dns.RcodeNameError && s.Local.Exists(q.Name) {
		m.Rcode = dns.RcodeSuccess
	}
	return m, err
}

// near is the network of an address of ours whose clients get the addresses on it first: dnsmasq's localise-queries, which is
// about IPv4 alone. The zero Prefix: there is none.
func (s *serving) near(local netip.Addr) netip.Prefix {
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

// routedLabels is how long a domain is that has answers of its own for a name: a route's, or the cluster's.
func (d *Daemon) routedLabels(s *serving, name dnsname.Name) int {
	longest := 0
	if route, ok := d.forward.Match(name); ok && !route.Plain {
		longest = route.Domain.Labels()
	}
	for _, apex := range s.Apexes {
		if name.Within(apex) {
			longest = max(longest, apex.Labels())
		}
	}
	return longest
}

// isLocalName reports whether something is known of a name: it is asked for, however plain it is.
func (d *Daemon) isLocalName(name dnsname.Name) bool { return d.serving.Load().Local.Exists(name) }
