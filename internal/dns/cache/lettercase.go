package cache

import "github.com/miekg/dns"

// inQuestionsCase changes names in m that share a suffix with qname to the letter case of qname, so
// that they are compressed to pointers to it. It skips names that are never compressed (RFC 3597
// section 4). It compares a name that thousands of records share only once.
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

// withSuffix returns name with the trailing labels that it shares with qname replaced by those of
// qname.
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

// beginsLabel reports whether a label of name begins at at, that is, after an unescaped dot.
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

// namesOf returns the names in a record that are compressed, for the types in use (RFC 1035 section
// 3.3).
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
