package records

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// KeepRelated drops what a response says about names that nobody asked for. We remember a response for its question alone, and
// so could be taken in by none of it; but a client may be a nameserver that is less careful (MaginotDNS, 2023). What is kept:
//   - of the answer section what keepChain keeps;
//   - of the authority section the records of a zone that has a name of the answer, and DNSSEC's proofs (RFC 4035 section
//     3.1.3), which are owned by whatever names are next to one that does not exist;
//   - of the additional section the records of names that those name (RFC 1034 section 4.3.2), with their signatures, and what
//     is about the message (RFC 6891, RFC 8945).
func KeepRelated(m *dns.Msg, qname string) {
	lower := make(lowerNames)
	keepChain(m, qname, lower)
	if len(m.Ns)+len(m.Extra) == 0 {
		return
	}
	owners, _ := chain(m.Answer, qname, nil, lower)
	zones := zonesOf(owners)
	m.Ns = slices.DeleteFunc(m.Ns, func(rr dns.RR) bool {
		return !isProof(rr) && !zones[lower.of(rr.Header().Name)]
	})
	if !slices.ContainsFunc(m.Extra, isAboutName) {
		return
	}
	for _, section := range [...][]dns.RR{m.Answer, m.Ns} {
		for _, rr := range section {
			if name := named(rr); name != "" {
				owners[strings.ToLower(name)] = true
			}
		}
	}
	m.Extra = slices.DeleteFunc(m.Extra, func(rr dns.RR) bool {
		return isAboutName(rr) && !owners[lower.of(rr.Header().Name)]
	})
}

// DropBeside drops what a response says about names that isElsewhere reports, beside the answer: in the authority section and in the
// additional section. A zone's SOA record and DNSSEC's proofs stay, as they lead nowhere and negative answers need them.
func DropBeside(m *dns.Msg, isElsewhere func(owner string) bool) {
	m.Ns = slices.DeleteFunc(m.Ns, besideAuthority(isElsewhere))
	m.Extra = slices.DeleteFunc(m.Extra, besideAdditional(isElsewhere))
}

// HasBeside reports whether DropBeside would drop a record. It leaves m as it is.
func HasBeside(m *dns.Msg, isElsewhere func(owner string) bool) bool {
	return slices.ContainsFunc(m.Ns, besideAuthority(isElsewhere)) || slices.ContainsFunc(m.Extra, besideAdditional(isElsewhere))
}

func besideAuthority(isElsewhere func(owner string) bool) func(dns.RR) bool {
	return func(rr dns.RR) bool {
		return rr.Header().Rrtype != dns.TypeSOA && !isProof(rr) && isElsewhere(rr.Header().Name)
	}
}

func besideAdditional(isElsewhere func(owner string) bool) func(dns.RR) bool {
	return func(rr dns.RR) bool { return isAboutName(rr) && isElsewhere(rr.Header().Name) }
}

// isProof reports whether a record is one of DNSSEC's proofs, or a signature.
func isProof(rr dns.RR) bool {
	switch rr.Header().Rrtype {
	case dns.TypeNSEC, dns.TypeNSEC3, dns.TypeRRSIG:
		return true
	}
	return false
}

// isAboutName reports whether a record is about a name, and not about the message.
func isAboutName(rr dns.RR) bool {
	switch rr.Header().Rrtype {
	case dns.TypeOPT, dns.TypeTSIG, dns.TypeSIG:
		return false
	}
	return true
}

// zonesOf are the names and all above them: what is looked up once for each record, of which a message has room for 6,000.
func zonesOf(names map[string]bool) map[string]bool {
	zones := map[string]bool{".": true}
	for name := range names {
		for offset, end := 0, false; !end && !zones[name[offset:]]; offset, end = dns.NextLabel(name, offset) {
			zones[name[offset:]] = true
		}
	}
	return zones
}

// named is the name in a record whose addresses may come along in the additional section; "": there is none.
func named(rr dns.RR) string {
	switch rr := rr.(type) {
	case *dns.NS:
		return rr.Ns
	case *dns.MX:
		return rr.Mx
	case *dns.SRV:
		return rr.Target
	case *dns.NAPTR:
		return rr.Replacement
	case *dns.AFSDB:
		return rr.Hostname
	case *dns.KX:
		return rr.Exchanger
	case *dns.LP:
		return rr.Fqdn
	}
	return ServiceTarget(rr)
}
