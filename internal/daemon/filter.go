package daemon

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

// serveFiltered is dnsmasq's filter-A and filter-AAAA: without these records in answers, the cluster's too, which dnsmasq has
// from an upstream. The questions are asked all the same, so that a name that does not exist does not.
func (d *Daemon) serveFiltered(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	m, err := d.zone.ServeDNS(ctx, q)
	if o := d.serving.Load().Options; m != nil && (o.FilterA || o.FilterAAAA) {
		filterAnswers(m, o)
	}
	return m, err
}

// filterAnswers takes the addresses out of the answer section, and says so: code 17 of RFC 8914, as dnsmasq does.
func filterAnswers(m *dns.Msg, o dnsmasqconf.Options) {
	before := len(m.Answer)
	m.Answer = slices.DeleteFunc(m.Answer, func(rr dns.RR) bool {
		rrtype := rr.Header().Rrtype
		if signature, ok := rr.(*dns.RRSIG); ok {
			rrtype = signature.TypeCovered
		}
		return rrtype == dns.TypeA && o.FilterA || rrtype == dns.TypeAAAA && o.FilterAAAA
	})
	if len(m.Answer) == before {
		return
	}
	opt := m.IsEdns0()
	if opt == nil {
		opt = &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		m.Extra = append(m.Extra, opt)
	}
	opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeFiltered})
}

// serveUpstream answers what is not the cluster's: from memory or the upstreams, but for what dnsmasq's filterwin2k and
// bogus-priv keep from them.
func (d *Daemon) serveUpstream(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	s := d.serving.Load()
	switch {
	case s.Options.FilterWin2K && asksAsWindows(q.Msg.Question[0]):
		q.Origin = dnsserver.OriginRule
		m := reply(q, dns.RcodeSuccess)
		m.Authoritative = true
		return m, nil
	case s.Options.BogusPrivate && q.Msg.Question[0].Qtype == dns.TypePTR && isPrivate(q.Name) && !d.isRouted(q.Name):
		q.Origin = dnsserver.OriginRule
		m := reply(q, dns.RcodeNameError)
		m.Authoritative = true
		return m, nil
	}
	m, err := d.serveCached(ctx, q)
	limitTTL(m, s.Settings.ClientTTL)
	return m, err
}

// asksAsWindows reports whether a question is one that filterwin2k answers with nothing (dnsmasq(8)).
func asksAsWindows(q dns.Question) bool {
	switch q.Qtype {
	case dns.TypeSOA, dns.TypeSRV:
		return true
	case dns.TypeANY:
		return strings.Contains(q.Name, "_")
	}
	return false
}

// isPrivate reports whether a name is that of a private address, or of a network of them. Names of services in a reverse zone
// (b._dns-sd._udp.0.0.168.192.in-addr.arpa) are others.
func isPrivate(name dnsname.Name) bool {
	return !name.IsZero() && slices.ContainsFunc(privateNetworks, name.Within) && !strings.Contains(name.String(), "_")
}

// privateNetworks are the reverse zones of the networks that dnsmasq 2.90 takes for private: RFC 6303 section 4, and the old
// site-local addresses (RFC 3879). fc00::/8 is not among them.
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
