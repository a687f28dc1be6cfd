package dnsserver

import (
	"net/netip"

	"github.com/miekg/dns"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// parseQuery makes a Query of a message that accept let pass. A nil Query means
// FORMERR by errorReply. Otherwise the rcode is that of the response when it is
// not NOERROR: the Handler must not see the query.
//
// What a client adds to its question is not parsed by package dns, which takes an
// option that it knows by its length for a fault of the message: RFC 9660's ZONEVERSION
// without data, as it is in queries.
func parseQuery(wire []byte, client, local netip.AddrPort, proto Proto) (q *Query, e extension, rcode int) {
	end := questionEnd(wire)
	e, rcode = readExtension(wire, end)
	if rcode == dns.RcodeFormatError {
		return nil, e, rcode
	}
	m := new(dns.Msg)
	if err := m.Unpack(e.withoutOptions(wire, end)); err != nil || len(m.Question) != 1 {
		return nil, e, dns.RcodeFormatError
	}
	q = &Query{Msg: m, Client: client, Local: local, Proto: proto}
	if rcode != dns.RcodeSuccess {
		return q, e, rcode
	}
	if rcode := checkQuestion(m.Question[0]); rcode != dns.RcodeSuccess {
		return q, e, rcode
	}
	if name, err := dnsname.Parse(m.Question[0].Name); err == nil {
		q.Name = name // a qname of other octets is answered too, RFC 2181 section 11
	}
	return q, e, dns.RcodeSuccess
}

// checkQuestion refuses what is never forwarded. Classes other than IN and CH (in
// which a nameserver is asked about itself, RFC 4892) are not known. Zone transfers are refused as RFC 5936 section 4.2 lets a server do.
// OPT is no type to ask for, nor is NXNAME (RFC 9824 section 3.5); TKEY and TSIG want keys, MAILB and MAILA are
// obsolete (RFC 1035 section 3.2.3).
func checkQuestion(question dns.Question) int {
	if question.Qclass != dns.ClassINET && question.Qclass != dns.ClassCHAOS {
		return dns.RcodeNotImplemented
	}
	switch question.Qtype {
	case dns.TypeAXFR, dns.TypeIXFR:
		return dns.RcodeRefused
	case dns.TypeOPT, dns.TypeNXNAME:
		return dns.RcodeFormatError
	case dns.TypeTKEY, dns.TypeTSIG, dns.TypeMAILA, dns.TypeMAILB:
		return dns.RcodeNotImplemented
	}
	return dns.RcodeSuccess
}

// limit returns how large a response to q may be; largest is Config.UDPSize.
func (q *Query) limit(largest int) int {
	size := 0
	if opt := q.Msg.IsEdns0(); opt != nil {
		size = int(opt.UDPSize())
	}
	return responseLimit(q.Proto, size, largest)
}

// responseLimit returns how large a response may be to a query that offers this
// EDNS size, 0 without EDNS. Without EDNS, or with a size below 512, it is 512
// octets (RFC 1035 section 4.2.1, RFC 6891 section 6.2.3); what is larger than
// largest is not sent over UDP whatever the client offers.
func responseLimit(proto Proto, size, largest int) int {
	if proto == TCP {
		return dns.MaxMsgSize
	}
	return min(max(size, dns.MinMsgSize), largest)
}

// Domain is the name that the query is routed by: its qname, or, when that has
// octets that no Name has (RFC 2181 section 11 allows any), the nearest domain
// above it that is one. So such a name below the cluster domain does not leak
// to the default servers.
func (q *Query) Domain() dnsname.Name {
	if !q.Name.IsZero() {
		return q.Name
	}
	return Domain(dns.Fqdn(q.Msg.Question[0].Name))
}

// Domain is the name of a text with its final dot, or the nearest domain above it that is one.
func Domain(text string) dnsname.Name {
	for offset, end := 0, false; !end; offset, end = dns.NextLabel(text, offset) {
		if name, err := dnsname.Parse(text[offset:]); err == nil {
			return name
		}
	}
	return dnsname.Root()
}
