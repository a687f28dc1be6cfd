package daemon

import (
	"context"
	"net/netip"
	"os"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// localTTL is the TTL of what we answer by ourselves; it can only change with the program.
const localTTL = 3600

// local answers what must not leave the node whatever the routes say, and hands on the rest.
type local struct {
	next    dnsserver.Handler
	version string
	serving func() *serving
	routed  func(dnsname.Name) bool // whether a route of its own exists for the name
	known   func(dnsname.Name) bool // whether local data has the name
	isProbe func(dnsname.Name) bool // whether the name is one of our own loop probes
	// numbers are the texts of a name in lower case by which dnsmasq tells of its cache and servers.
	numbers func(name string) (texts []string, known bool)
}

var _ dnsserver.Handler = (*local)(nil)

// ServeDNS implements dnsserver.Handler.
func (l *local) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	question := q.Msg.Question[0]
	switch {
	case question.Qclass == dns.ClassCHAOS:
		q.Origin = dnsserver.OriginSelf
		return l.chaos(q, question), nil
	case question.Qclass != dns.ClassINET:
		return reply(q, dns.RcodeNotImplemented), nil
	case l.isProbe(q.Name):
		q.Origin = dnsserver.OriginSelf
		return reply(q, dns.RcodeNameError), nil
	case isLocalhost(q.Name):
		q.Origin = dnsserver.OriginLocalhost
		return localhost(q, question), nil
	case l.refusesPlain(q.Name, question.Qtype):
		q.Origin = dnsserver.OriginRule
		return reply(q, dns.RcodeNameError), nil
	}
	if m := l.specialReply(q, question); m != nil {
		q.Origin = dnsserver.OriginRule
		return m, nil
	}
	return l.next.ServeDNS(ctx, q)
}

// chaos answers the names by which nameservers are told apart (RFC 4892, and BIND's older ones), to clients on this
// host only. The dispatcher asks version.bind to learn whether we answer.
func (l *local) chaos(q *dnsserver.Query, question dns.Question) *dns.Msg {
	if !l.serving().Net.IsLocal(q.Client.Addr()) {
		m := reply(q, dns.RcodeRefused)
		explain(m, dns.ExtendedErrorCodeProhibited, "for this host alone")
		return m
	}
	if question.Qtype != dns.TypeTXT && question.Qtype != dns.TypeANY {
		return reply(q, dns.RcodeRefused)
	}
	var texts []string
	switch strings.ToLower(question.Name) {
	case "version.bind.", "version.server.":
		texts = []string{"node-dns " + l.version}
	case "id.server.", "hostname.bind.":
		name, _ := os.Hostname() // a host without a name has an empty one
		texts = []string{name}
	case "authors.bind.":
		texts = []string{"the authors of node-dns"}
	default:
		var known bool
		if texts, known = l.numbers(strings.ToLower(question.Name)); !known {
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

// refusesPlain is dnsmasq's domain-needed: addresses of a name without dots are not asked upstream, where a search list
// was forgotten or a typo made. A route for just that name is an admin's word against it. The answer has no SOA record, so that no cache keeps it
// (RFC 2308 section 5): com. gets it too, and a cache that keeps it answers NXDOMAIN to every name below com. (RFC 8020).
func (l *local) refusesPlain(name dnsname.Name, qtype uint16) bool {
	return l.serving().Config.DomainNeeded && name.Labels() == 1 &&
		(qtype == dns.TypeA || qtype == dns.TypeAAAA) && !l.routed(name) && !l.known(name)
}

// isLocalhost reports whether a name is localhost or below it (RFC 6761 section 6.3).
func isLocalhost(name dnsname.Name) bool {
	text := name.String()
	return text == "localhost." || strings.HasSuffix(text, ".localhost.")
}

func localhost(q *dnsserver.Query, question dns.Question) *dns.Msg {
	m := reply(q, dns.RcodeSuccess)
	m.Authoritative = true
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: localTTL}
	switch question.Qtype {
	case dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: header, A: netip.AddrFrom4([4]byte{127, 0, 0, 1}).AsSlice()}}
	case dns.TypeAAAA:
		m.Answer = []dns.RR{&dns.AAAA{Hdr: header, AAAA: netip.IPv6Loopback().AsSlice()}}
	}
	return m
}

// explain adds an extended error, RFC 8914, to a response that has no OPT record yet.
func explain(m *dns.Msg, code uint16, text string) {
	m.Extra = append(m.Extra, &dns.OPT{
		Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}, Option: []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: code, ExtraText: text}},
	})
}

func reply(q *dnsserver.Query, rcode int) *dns.Msg {
	return new(dns.Msg).SetRcode(q.Msg, rcode)
}
