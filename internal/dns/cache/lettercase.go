package cache

import "github.com/miekg/dns"

// inQuestionsCase changes the names in m that end as qname does, whatever the letters' case, to its case there, so that they are
// packed as pointers to it. Names that are never compressed (RFC 3597 section 4) are left alone. A name that thousands of records
// share is compared once.
func inQuestionsCase(m *dns.Msg, qname string) {
	lower, known := !hasUpper(qname), make(map[string]string)
	for _, section := range [...][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if rr == nil {
				continue
			}
			for _, name := range namesOf(rr) {
				if name == nil || *name == qname || lower && !hasUpper(*name) {
					continue
				}
				if _, ok := known[*name]; !ok {
					known[*name] = withSuffix(*name, qname)
				}
				*name = known[*name]
			}
		}
	}
}

// withSuffix returns name with the labels that it has in common with qname, from the last on, as they are there.
func withSuffix(name, qname string) string {
	common := 0
	for n := 1; n <= min(len(name), len(qname)); n++ {
		at, from := len(name)-n, len(qname)-n
		if lowerLetter(name[at]) != lowerLetter(qname[from]) {
			break
		}
		if beginsLabel(name, at) && beginsLabel(qname, from) {
			common = n
		}
	}
	return name[:len(name)-common] + qname[len(qname)-common:]
}

// beginsLabel reports whether a label of name begins at at: behind a dot that is not escaped.
func beginsLabel(name string, at int) bool { return at == 0 || dns.IsFqdn(name[:at]) }

func hasUpper(name string) bool {
	for i := range len(name) {
		if isUpper(name[i]) {
			return true
		}
	}
	return false
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

func lowerLetter(c byte) byte {
	if isUpper(c) {
		return c + 'a' - 'A'
	}
	return c
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
