package dnsserver

import (
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Onward is the query for a name that CNAME records lead q to, which is its client's too.
func (q *Query) Onward(name string) *Query {
	m := new(dns.Msg).SetQuestion(name, q.Msg.Question[0].Qtype)
	m.CheckingDisabled = q.Msg.CheckingDisabled
	if opt := q.Msg.IsEdns0(); opt != nil {
		m.SetEdns0(opt.UDPSize(), opt.Do())
	}
	parsed, _ := dnsname.Parse(name) // the zero Name for other octets, as in the query that a client sends
	return &Query{Msg: m, Name: parsed, Client: q.Client, Local: q.Local, Proto: q.Proto, Inquiry: q.Inquiry}
}

// Join completes m, whose answer section ends with a CNAME record, with what there is at its target. The rcode is that of the target
// (RFC 6604 section 3). Its nameservers are left out, and m is validated no more.
func Join(m, rest *dns.Msg) {
	m.Rcode, m.Truncated, m.AuthenticatedData = rest.Rcode, rest.Truncated, false
	m.Answer = append(m.Answer, rest.Answer...)
	m.Ns = slices.DeleteFunc(rest.Ns, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeNS })
	m.Extra = nil
	if opt := rest.IsEdns0(); opt != nil {
		m.Extra = []dns.RR{opt}
	}
}
