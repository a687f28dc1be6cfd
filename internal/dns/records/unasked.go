package records

import (
	"slices"

	"github.com/miekg/dns"
)

// KeepAsked is KeepRelated, and drops what DNSSEC adds to an answer where nobody asked for that by DO (RFC 4035 section 3.2.1),
// but of the type that was asked for. A nameserver that adds it anyway makes more of every answer, and a client that knows no
// DNSSEC may take it for the answer.
func KeepAsked(m *dns.Msg, qname string, qtype uint16, do bool) {
	KeepRelated(m, qname)
	if do {
		return
	}
	isAdded := func(rr dns.RR) bool {
		switch rrtype := rr.Header().Rrtype; rrtype {
		case dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3:
			return rrtype != qtype && qtype != dns.TypeANY
		}
		return false
	}
	for _, section := range [...]*[]dns.RR{&m.Answer, &m.Ns, &m.Extra} {
		if slices.ContainsFunc(*section, isAdded) {
			*section = slices.DeleteFunc(*section, isAdded)
		}
	}
}
