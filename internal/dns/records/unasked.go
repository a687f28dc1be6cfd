package records

import (
	"slices"

	"github.com/miekg/dns"
)

// KeepAsked is like KeepRelated, but without DO it also drops the DNSSEC records in an answer (RFC
// 4035 section 3.2.1), except those of the queried type. Some nameservers add them without DO. That
// makes every answer larger, and a client without DNSSEC support may mistake them for the answer.
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
