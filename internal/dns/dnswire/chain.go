package dnswire

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// maxChain is the maximum number of names in the alias chain of one answer; unbound follows 11.
const maxChain = 32

// keepChain drops the records of the answer section whose owner is neither the qname nor a name
// that it leads to through CNAME (RFC 1034 section 3.6.2) or DNAME (RFC 6672) records of the same
// section. No client requested them, and a cache that believed them could be poisoned (MaginotDNS,
// 2023).
func keepChain(m *dns.Msg, qname string, lower lowerNames) {
	strange := func(rr dns.RR) bool {
		name := rr.Header().Name
		return name != qname && lower.of(name) != lower.of(qname)
	}
	if !slices.ContainsFunc(m.Answer, strange) {
		return
	}
	owners, _ := chain(m.Answer, qname, nil, lower)
	keepOwners(m, owners, lower)
}

// lowerNames maps names of one message to lower case. Thousands of records may share a long name,
// which is converted once.
type lowerNames map[string]string

func (l lowerNames) of(name string) string {
	lower, ok := l[name]
	if !ok {
		lower = strings.ToLower(name)
		l[name] = lower
	}
	return lower
}

// KeepUntil drops the records of the answer section after the first alias to a target for which
// stop returns true, and returns that target in lower case. If there is no such alias, it returns
// "" and does not change m. stop is called with the targets of the chain from qname on, in lower
// case and in order.
func KeepUntil(m *dns.Msg, qname string, stop func(target string) bool) (target string) {
	lower := make(lowerNames)
	owners, target := aliased(m, qname, stop, lower)
	if target != "" {
		keepOwners(m, owners, lower)
	}
	return target
}

// LeadsTo reports whether KeepUntil would find such an alias. It does not change m.
func LeadsTo(m *dns.Msg, qname string, stop func(target string) bool) bool {
	_, target := aliased(m, qname, stop, make(lowerNames))
	return target != ""
}

// aliased is like chain but returns early if the answer has no alias.
func aliased(m *dns.Msg, qname string, stop func(target string) bool, lower lowerNames) (owners map[string]bool, target string) {
	if !slices.ContainsFunc(m.Answer, isAlias) {
		return nil, ""
	}
	return chain(m.Answer, qname, stop, lower)
}

func isAlias(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeCNAME }

func keepOwners(m *dns.Msg, owners map[string]bool, lower lowerNames) {
	m.Answer = slices.DeleteFunc(m.Answer, func(rr dns.RR) bool {
		return !owners[lower.of(rr.Header().Name)]
	})
}

// chain returns the owners that belong to the answer for qname, all in lower case. The records may
// be in any order. If one owner has several CNAME records, which RFC 2181 section 10.1 forbids, the
// first wins. The work is linear in the number of records, whatever they contain. The chain ends
// before the first target for which stop returns true, and chain returns that target; a nil stop
// never does.
func chain(answer []dns.RR, qname string, stop func(target string) bool, lower lowerNames) (owners map[string]bool, target string) {
	aliases := make(map[string]string)
	subtrees := make(map[string]bool)
	for _, rr := range answer {
		owner := lower.of(rr.Header().Name)
		switch rr := rr.(type) {
		case *dns.CNAME:
			if aliases[owner] == "" {
				aliases[owner] = strings.ToLower(rr.Target)
			}
		case *dns.DNAME:
			subtrees[owner] = true
		}
	}
	owners = make(map[string]bool)
	for name, n := strings.ToLower(qname), 0; name != "" && n < maxChain; name, n = aliases[name], n+1 {
		if n > 0 && stop != nil && stop(name) {
			return owners, name
		}
		owners[name] = true
		for offset, end := 0, false; !end; offset, end = dns.NextLabel(name, offset) {
			if subtrees[name[offset:]] {
				owners[name[offset:]] = true
			}
		}
	}
	return owners, ""
}
