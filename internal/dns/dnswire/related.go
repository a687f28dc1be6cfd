package dnswire

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// KeepRelated drops records for names that were not requested. Our cache stores a response only for
// its question, so such records cannot poison it, but a client may be a less careful nameserver
// (MaginotDNS, 2023). KeepRelated keeps
//   - in the answer section, what keepChain keeps;
//   - in the authority section, the records of zones that contain a name of the answer, and DNSSEC
//     proofs (RFC 4035 section 3.1.3), which are owned by the neighbors of a name that does not
//     exist;
//   - in the additional section, the records of names that those records refer to (RFC 1034 section
//     4.3.2), with their signatures, and records about the message itself (RFC 6891, RFC 8945).
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

// DropBeside drops records of the authority and additional sections whose owners isElsewhere
// reports. SOA records and DNSSEC proofs stay in the authority section, because they lead to no
// other name and negative answers need them.
func DropBeside(m *dns.Msg, isElsewhere func(owner string) bool) {
	m.Ns = slices.DeleteFunc(m.Ns, besideAuthority(isElsewhere))
	m.Extra = slices.DeleteFunc(m.Extra, besideAdditional(isElsewhere))
}

// HasBeside reports whether DropBeside would drop a record. It does not change m.
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

// isProof reports whether a record is a DNSSEC proof or a signature.
func isProof(rr dns.RR) bool {
	switch rr.Header().Rrtype {
	case dns.TypeNSEC, dns.TypeNSEC3, dns.TypeRRSIG:
		return true
	}
	return false
}

// isAboutName reports whether a record concerns a name and not the message.
func isAboutName(rr dns.RR) bool {
	switch rr.Header().Rrtype {
	case dns.TypeOPT, dns.TypeTSIG, dns.TypeSIG:
		return false
	}
	return true
}

// zonesOf returns the names and all their ancestors, for one lookup per record. A message can have
// 6,000 records.
func zonesOf(names map[string]bool) map[string]bool {
	zones := map[string]bool{".": true}
	for name := range names {
		for offset, end := 0, false; !end && !zones[name[offset:]]; offset, end = dns.NextLabel(name, offset) {
			zones[name[offset:]] = true
		}
	}
	return zones
}

// named returns the name in a record whose addresses may be in the additional section, or "".
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
