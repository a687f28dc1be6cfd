package resolve

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// errIgnored is the error for a response with an address of ignore-address.
var errIgnored = errors.New("the response has an ignored address (ignore-address)")

// screen drops records that the upstream is not responsible for, and follows an alias that leads
// to such names. Then it applies dnsmasq's alias, bogus-nxdomain and stop-dns-rebind. The cache
// gets the result.
func screen(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	m, err := next.ServeDNS(ctx, q)
	if m == nil {
		return nil, err
	}
	target, isOfCluster := next.r.cut(s, q, m), s.IsOfCluster(q.Name)
	if len(m.Answer) == 0 {
		return m, err
	}
	if len(s.Dnsmasq.Rewrites) > 0 && !isOfCluster {
		rewrite(m, s.Dnsmasq.Rewrites)
	}
	if target != "" {
		m, err = followAlias(ctx, q, m, target, rest{next.r, s, selfAt, false})
	}
	switch {
	case m == nil || isOfCluster:
	case anyAddress(m, func(addr netip.Addr) bool { return within(s.Dnsmasq.Bogus, addr) }):
		return blocked(m, dns.RcodeNameError), nil
	case s.Settings.StopRebind && !s.mayRebind(q.Name) && (anyAddress(m, s.isRebind) || anyHint(m, s.isRebind)):
		return blocked(m, dns.RcodeSuccess), nil
	}
	return m, err
}

// stopAtScreen does not stop for aliases, because Answered checks where they lead.
func stopAtScreen(_ *Resolver, s *state, _ *walk) verdict {
	return stopIf(s.Settings.StopRebind || len(s.Dnsmasq.Bogus)+len(s.Dnsmasq.Ignored)+len(s.Dnsmasq.Rewrites) > 0)
}

// rewrite implements dnsmasq's alias: the last option that applies to an address wins. The response
// is no longer the upstream's, so it is neither authoritative nor validated.
func rewrite(m *dns.Msg, rewrites []dnsmasqconf.Rewrite) {
	for _, section := range [...][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			a, ok := rr.(*dns.A)
			if !ok {
				continue
			}
			addr, _ := netip.AddrFromSlice(a.A)
			for _, r := range slices.Backward(rewrites) {
				if to, ok := r.Apply(addr.Unmap()); ok {
					a.A = to.AsSlice()
					m.Authoritative, m.AuthenticatedData = false, false
					break
				}
			}
		}
	}
}

// ignore is the forward.Config.Ignore function, and implements dnsmasq's ignore-address.
func (r *Resolver) ignore(m *dns.Msg) error {
	ignored := r.Policy().Dnsmasq.Ignored
	if anyAddress(m, func(addr netip.Addr) bool { return within(ignored, addr) }) {
		return errIgnored
	}
	return nil
}

// mayRebind reports whether a name may have private addresses. The root in rebind-domain-ok stands
// for single-label names.
func (s *state) mayRebind(name dnsname.Name) bool {
	return slices.ContainsFunc(s.Dnsmasq.RebindOK, func(domain dnsname.Name) bool {
		if domain.IsRoot() {
			return name.Labels() == 1
		}
		return name.Within(domain)
	})
}

// isRebind reports whether an address is one that public names must not have.
func (s *state) isRebind(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return !s.Settings.RebindLocalhost
	}
	return isPrivate(dnsname.Reverse(addr))
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// anyAddress reports whether is returns true for an address in the answer section. An IPv4-mapped
// address counts as IPv4.
func anyAddress(m *dns.Msg, is func(netip.Addr) bool) bool {
	return slices.ContainsFunc(m.Answer, func(rr dns.RR) bool {
		addr, ok := dnswire.Addr(rr)
		return ok && is(addr)
	})
}

// anyHint is anyAddress for the address hints of SVCB and HTTPS records (RFC 9460 section 7.3),
// which browsers connect to.
func anyHint(m *dns.Msg, is func(netip.Addr) bool) bool {
	return slices.ContainsFunc(m.Answer, func(rr dns.RR) bool {
		return slices.ContainsFunc(dnswire.ServiceHints(rr), func(addr netip.Addr) bool { return is(addr.Unmap()) })
	})
}

// blocked removes all records and adds EDE code 15 (RFC 8914), as dnsmasq does.
func blocked(m *dns.Msg, rcode int) *dns.Msg {
	m.Rcode, m.AuthenticatedData = rcode, false
	m.Answer, m.Ns, m.Extra = nil, nil, nil
	dnsserver.Explain(m, dns.ExtendedErrorCodeBlocked, "")
	return m
}
