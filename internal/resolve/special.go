package resolve

import (
	"context"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// special lists the domains that are answered locally, as unbound does, unless a route or local
// data has the name (RFC 7686 section 2, RFC 6761 section 6.4, RFC 6303 sections 4.2 and 4.3).
var special = [...]struct {
	zone     string
	loopback string // name in the zone that stands for localhost; "" if none
}{
	{zone: "onion."},
	{zone: "invalid."},
	{"127.in-addr.arpa.", "1.0.0.127.in-addr.arpa."},
	{zoneOfLoopback6, zoneOfLoopback6},
}

const zoneOfLoopback6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa."

// serveSpecial answers names in these domains.
func serveSpecial(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	if !isSpecial([]byte(q.Name.String())) || next.r.isRouted(q.Name) || s.Local.Exists(q.Name) {
		return next.ServeDNS(ctx, q)
	}
	q.Origin = dnsserver.OriginRule
	return specialReply(q), nil
}

func stopAtSpecial(_ *Resolver, _ *state, w *walk) verdict { return stopIf(isSpecial(w.name)) }

// isSpecial reports whether a name is in one of the special domains. It does not allocate.
func isSpecial(name []byte) bool {
	for i := range special {
		zone := special[i].zone
		if at := len(name) - len(zone); at >= 0 && string(name[at:]) == zone && (at == 0 || name[at-1] == '.') {
			return true
		}
	}
	return false
}

func specialReply(q *dnsserver.Query) *dns.Msg {
	name, question := q.Name.String(), q.Msg.Question[0]
	for _, s := range special {
		switch {
		case s.loopback == "" || !q.Name.Within(dnsname.MustParse(s.zone)):
		case name == s.loopback:
			m := reply(q, dns.RcodeSuccess)
			m.Authoritative = true
			if question.Qtype == dns.TypePTR || question.Qtype == dns.TypeANY {
				m.Answer = []dns.RR{&dns.PTR{
					Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: localTTL}, Ptr: "localhost.",
				}}
			}
			return m
		case strings.HasSuffix(s.loopback, "."+name): // the loopback name is below name
			return reply(q, dns.RcodeSuccess)
		}
	}
	return reply(q, dns.RcodeNameError)
}
