package dnsserver

import (
	"net/netip"

	"github.com/miekg/dns"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// parseQuery parses a message that accept let through. If the Query is nil, the response is
// errorReply with FORMERR. Otherwise, if rcode is not NOERROR, it is the rcode of the response, and
// the Handler must not see the query.
//
// Package dns does not parse the client's EDNS options, because it checks the length of options
// that it knows. It rejects the message for a ZONEVERSION without data (RFC 9660), which is valid
// in queries.
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
		q.Name = name // a qname with other bytes is answered too (RFC 2181 section 11)
	}
	return q, e, dns.RcodeSuccess
}

// checkQuestion rejects questions that are never forwarded. It accepts only the classes IN and CH,
// which asks about the nameserver itself (RFC 4892). It refuses zone transfers, as RFC 5936 section
// 4.2 allows. OPT and NXNAME are not query types (RFC 9824 section 3.5), TKEY and TSIG need keys,
// and MAILB and MAILA are obsolete (RFC 1035 section 3.2.3).
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

// limit returns the maximum size of a response to q. largest is Config.UDPSize.
func (q *Query) limit(largest int) int {
	size := 0
	if opt := q.Msg.IsEdns0(); opt != nil {
		size = int(opt.UDPSize())
	}
	return responseLimit(q.Proto, size, largest)
}

// responseLimit returns the maximum size of a response to a query with the given EDNS size, which
// is 0 without EDNS. Without EDNS, or with a size below 512, it is 512 bytes (RFC 1035 section
// 4.2.1, RFC 6891 section 6.2.3). Over UDP it never exceeds largest.
func responseLimit(proto Proto, size, largest int) int {
	if proto == TCP {
		return dns.MaxMsgSize
	}
	return min(max(size, dns.MinMsgSize), largest)
}

// Domain returns the name that the query is routed by. This is the qname or, if that has bytes
// that no Name has (RFC 2181 section 11 allows any), its nearest ancestor that is a valid Name. So
// such a name below the cluster domain does not leak to the default servers.
func (q *Query) Domain() dnsname.Name {
	if !q.Name.IsZero() {
		return q.Name
	}
	return Domain(dns.Fqdn(q.Msg.Question[0].Name))
}

// Domain parses a fully qualified name. If the name is invalid, it returns the nearest valid
// ancestor.
func Domain(text string) dnsname.Name {
	for offset, end := 0, false; !end; offset, end = dns.NextLabel(text, offset) {
		if name, err := dnsname.Parse(text[offset:]); err == nil {
			return name
		}
	}
	return dnsname.Root()
}
