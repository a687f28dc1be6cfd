package forward

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// maxChain bounds how many names one answer may lead through; unbound follows 11.
const maxChain = 32

// keepChain drops the records of the answer section whose owner is neither the
// qname nor a name that it leads to by CNAME (RFC 1034 section 3.6.2) or DNAME
// (RFC 6672) records of the same section: nobody asked for them, and a cache
// that believed them could be poisoned (MaginotDNS, 2023).
func keepChain(m *dns.Msg, qname string) {
	strange := func(rr dns.RR) bool { return !strings.EqualFold(rr.Header().Name, qname) }
	if !slices.ContainsFunc(m.Answer, strange) {
		return
	}
	owners := chain(m.Answer, strings.ToLower(qname))
	m.Answer = slices.DeleteFunc(m.Answer, func(rr dns.RR) bool {
		return !owners[strings.ToLower(rr.Header().Name)]
	})
}

// chain returns the owners that belong to the answer for qname, all in lower
// case. The records may stand in any order; of several CNAME records of one
// owner (RFC 2181 section 10.1 forbids them) the first counts. The work grows with
// the number of records, not with its square, whatever they say.
func chain(answer []dns.RR, qname string) map[string]bool {
	aliases := make(map[string]string)
	subtrees := make(map[string]bool)
	for _, rr := range answer {
		owner := strings.ToLower(rr.Header().Name)
		switch rr := rr.(type) {
		case *dns.CNAME:
			if aliases[owner] == "" {
				aliases[owner] = strings.ToLower(rr.Target)
			}
		case *dns.DNAME:
			subtrees[owner] = true
		}
	}
	owners := make(map[string]bool)
	for name, n := qname, 0; name != "" && n < maxChain; name, n = aliases[name], n+1 {
		owners[name] = true
		for offset, end := 0, false; !end; offset, end = dns.NextLabel(name, offset) {
			if subtrees[name[offset:]] {
				owners[name[offset:]] = true
			}
		}
	}
	return owners
}
