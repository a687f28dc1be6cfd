package daemon

import (
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// minimalAny answers ANY for a name that others are asked about, and are not asked that: whoever forges his address gets
// the largest answers by it. RFC 8482 section 4.2 has this record for it, which tells resolvers that they have an answer.
func minimalAny(q *dnsserver.Query) *dns.Msg {
	m := reply(q, dns.RcodeSuccess)
	m.Answer = []dns.RR{&dns.HINFO{
		Hdr: dns.RR_Header{Name: q.Msg.Question[0].Name, Rrtype: dns.TypeHINFO, Class: dns.ClassINET, Ttl: localTTL},
		Cpu: "RFC8482",
	}}
	return m
}

// subset is one RRset of an answer to ANY, RFC 8482 section 4.1: the first.
func subset(answer []dns.RR) []dns.RR {
	if len(answer) == 0 {
		return answer
	}
	first := answer[0].Header().Rrtype
	return slices.DeleteFunc(answer, func(rr dns.RR) bool { return rr.Header().Rrtype != first })
}
