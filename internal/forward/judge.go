package forward

import "github.com/miekg/dns"

// A verdict is what is done with a response that belongs to its query.
type verdict int

const (
	final    verdict = iota // the client gets it
	overTCP                 // the same server is asked again over TCP
	noEDNS                  // the same server is asked again without EDNS
	nextBest                // another server is asked; kept in case that none does better
)

// judge looks only at the header: what the records say is the client's business.
// edns means that the query had an OPT record; stream that it came over TCP or TLS.
//
// SERVFAIL and REFUSED go on to the next server as resolv.conf(5) has it for
// glibc; NOTIMP and FORMERR with them, because the query is known to be well
// formed. An extended RCODE is about the transaction with us, not about the
// name, and cannot be said to a client without EDNS.
func judge(m *dns.Msg, edns, stream bool) verdict {
	switch m.Rcode {
	case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
		if edns {
			return noEDNS
		}
		return nextBest
	case dns.RcodeServerFailure, dns.RcodeRefused:
		return nextBest
	}
	switch {
	case m.Rcode > 0x0f:
		return nextBest
	case m.Truncated && stream:
		return nextBest
	case m.Truncated:
		return overTCP
	}
	return final
}

// presentable reports whether a response that was not final may still be given
// to the client when no server did better. FORMERR may not: the client would take its
// own query for malformed, which has been read here.
func presentable(m *dns.Msg) bool {
	return m.Rcode <= 0x0f && m.Rcode != dns.RcodeFormatError && !m.Truncated && len(m.Question) == 1
}
