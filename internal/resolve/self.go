package resolve

import (
	"context"
	"os"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// serveSelf answers queries of class CHAOS. Classes other than IN and CHAOS are not implemented.
func serveSelf(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	switch q.Msg.Question[0].Qclass {
	case dns.ClassINET:
		return next.ServeDNS(ctx, q)
	case dns.ClassCHAOS:
		q.Origin = dnsserver.OriginSelf
		return next.r.chaos(s, q), nil
	}
	return reply(q, dns.RcodeNotImplemented), nil
}

// chaos answers the names that identify a nameserver (RFC 4892, and the older ones of BIND), for
// clients on this host only. The dispatcher queries version.bind to check whether we answer.
func (r *Resolver) chaos(s *state, q *dnsserver.Query) *dns.Msg {
	question := q.Msg.Question[0]
	if !s.IsThisHost(q.Client.Addr()) {
		m := reply(q, dns.RcodeRefused)
		dnsserver.Explain(m, dns.ExtendedErrorCodeProhibited, nameserver.OnlyThisHost)
		return m
	}
	if question.Qtype != dns.TypeTXT && question.Qtype != dns.TypeANY {
		return reply(q, dns.RcodeRefused)
	}
	var texts []string
	switch name := strings.ToLower(question.Name); name {
	case "version.bind.", "version.server.":
		texts = []string{"node-dns " + r.config.Version}
	case "id.server.", "hostname.bind.":
		hostname, _ := os.Hostname() // empty if the host has no name
		texts = []string{hostname}
	case "authors.bind.":
		texts = []string{"the authors of node-dns"}
	default:
		var known bool
		if texts, known = r.config.Numbers(name); !known {
			return reply(q, dns.RcodeRefused)
		}
	}
	m := reply(q, dns.RcodeSuccess)
	m.Authoritative = true
	m.Answer = []dns.RR{&dns.TXT{
		Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypeTXT, Class: dns.ClassCHAOS},
		Txt: texts,
	}}
	return m
}

func reply(q *dnsserver.Query, rcode int) *dns.Msg {
	return new(dns.Msg).SetRcode(q.Msg, rcode)
}
