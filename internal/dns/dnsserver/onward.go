package dnsserver

import (
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Onward returns the query for the name that a CNAME chain leads q to, on behalf of the same
// client.
func (q *Query) Onward(name string) *Query {
	m := new(dns.Msg).SetQuestion(name, q.Msg.Question[0].Qtype)
	m.CheckingDisabled = q.Msg.CheckingDisabled
	if opt := q.Msg.IsEdns0(); opt != nil {
		m.SetEdns0(opt.UDPSize(), opt.Do())
	}
	parsed, _ := dnsname.Parse(name) // the zero Name for other bytes, as for a query from a client
	return &Query{Msg: m, Name: parsed, Client: q.Client, Local: q.Local, Proto: q.Proto, Inquiry: q.Inquiry}
}

// Join completes m, whose answer section ends with a CNAME record, with the response for the CNAME
// target. The rcode is that of the target (RFC 6604 section 3). The target's NS records are
// dropped, and m no longer counts as validated.
func Join(m, rest *dns.Msg) {
	m.Rcode, m.Truncated, m.AuthenticatedData = rest.Rcode, rest.Truncated, false
	m.Answer = append(m.Answer, rest.Answer...)
	m.Ns = slices.DeleteFunc(rest.Ns, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeNS })
	m.Extra = nil
	if opt := rest.IsEdns0(); opt != nil {
		m.Extra = []dns.RR{opt}
	}
}
