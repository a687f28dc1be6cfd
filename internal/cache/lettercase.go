package cache

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// inQuestionsCase returns the records with names that end as qname does, whatever the letters' case, in its case there, so
// that they are packed as pointers to it. Records that are changed are copies. Names that are never compressed (RFC 3597
// section 4) are left alone.
func inQuestionsCase(section []dns.RR, qname string) []dns.RR {
	copied, lower := false, !hasUpper(qname)
	for i, rr := range section {
		if rr == nil || lower && !namesUpper(rr) {
			continue
		}
		if !copied {
			section, copied = slices.Clone(section), true
		}
		section[i] = dns.Copy(rr)
		for _, name := range namesOf(section[i]) {
			if name != nil {
				*name = withSuffix(*name, qname)
			}
		}
	}
	return section
}

// withSuffix returns name with the labels that it has in common with qname, from the last on, as they are there.
func withSuffix(name, qname string) string {
	common := dns.CompareDomainName(name, qname)
	if common == 0 {
		return name
	}
	at, _ := dns.PrevLabel(name, common)
	from, _ := dns.PrevLabel(qname, common)
	return name[:at] + qname[from:]
}

func namesUpper(rr dns.RR) bool {
	for _, name := range namesOf(rr) {
		if name != nil && hasUpper(*name) {
			return true
		}
	}
	return false
}

func hasUpper(name string) bool {
	return strings.ContainsFunc(name, func(c rune) bool { return 'A' <= c && c <= 'Z' })
}

// namesOf are the names in a record that are compressed, of the types that are in use: RFC 1035 section 3.3.
func namesOf(rr dns.RR) [3]*string {
	names := [3]*string{&rr.Header().Name}
	switch rr := rr.(type) {
	case *dns.CNAME:
		names[1] = &rr.Target
	case *dns.NS:
		names[1] = &rr.Ns
	case *dns.PTR:
		names[1] = &rr.Ptr
	case *dns.MX:
		names[1] = &rr.Mx
	case *dns.SOA:
		names[1], names[2] = &rr.Ns, &rr.Mbox
	}
	return names
}
