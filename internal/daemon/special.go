package daemon

import (
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// special are the domains that are answered locally, as unbound does, unless a route or local data has the name (RFC 7686 section 2, RFC 6761
// section 6.4, RFC 6303 sections 4.2 and 4.3).
var special = [...]struct {
	zone     string
	loopback string // the name in it that leads to localhost; "": none
}{
	{zone: "onion."},
	{zone: "invalid."},
	{"127.in-addr.arpa.", "1.0.0.127.in-addr.arpa."},
	{zoneOfLoopback6, zoneOfLoopback6},
}

const zoneOfLoopback6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa."

// isSpecialText reports whether a name, by its text, is in one of these domains. It does not allocate.
func isSpecialText(name []byte) bool {
	for i := range special {
		zone := special[i].zone
		if at := len(name) - len(zone); at >= 0 && string(name[at:]) == zone && (at == 0 || name[at-1] == '.') {
			return true
		}
	}
	return false
}

// specialReply answers a question about a name in one of these domains. It is nil for other names, and for names of a route, of local data or of the
// cluster.
func (l *local) specialReply(q *dnsserver.Query, question dns.Question) *dns.Msg {
	name := q.Name.String()
	if !isSpecialText([]byte(name)) || l.routed(q.Name) || l.known(q.Name) {
		return nil
	}
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
		case strings.HasSuffix(s.loopback, "."+name): // it is above that name
			return reply(q, dns.RcodeSuccess)
		}
	}
	return reply(q, dns.RcodeNameError)
}
