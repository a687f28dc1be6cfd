package dnstest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Diff returns the differences between a response and the wanted one, or "": a line with - for what
// is missing, with + for what is unexpected. The wanted response is in dig's format, one record per
// line with its TTL; a TTL of "*" matches any:
//
//	;; NXDOMAIN
//	;; flags aa ra
//	;; AUTHORITY
//	example.com. 60 IN SOA ns.example.com. hostmaster.example.com. 1 3600 600 86400 60
//
// A comment begins with one semicolon. A line with two semicolons sets one of the following: the
// RCODE, NOERROR by default; "flags", all flags that are set of aa tc rd ra ad cd, not compared by
// default; "ede", the info codes of extended DNS errors, not compared by default; ANSWER, AUTHORITY
// or ADDITIONAL, the section of the following records, initially ANSWER; "ordered", which makes the
// order of records in a section significant. A section without records must be empty. OPT records
// and the question are not compared. An invalid text is a difference.
func Diff(want string, got *dns.Msg) string {
	w, err := parseWanted(want)
	if err != nil {
		return err.Error()
	}
	if got == nil {
		return "-a response\n+no response\n"
	}
	var out strings.Builder
	differ(&out, "rcode", rcodeText(w.rcode), rcodeText(got.Rcode))
	if w.flags != nil {
		differ(&out, "flags", strings.Join(*w.flags, " "), strings.Join(flagsOf(got), " "))
	}
	if w.ede != nil {
		differ(&out, "ede", strings.Join(*w.ede, " "), strings.Join(edeOf(got), " "))
	}
	for i, rrs := range [][]dns.RR{got.Answer, got.Ns, withoutOPT(got.Extra)} {
		diffSection(&out, sectionNames[i], w.sections[i], rrs, w.ordered)
	}
	return out.String()
}

func differ(out *strings.Builder, what, want, got string) {
	if want != got {
		fmt.Fprintf(out, "-%s %s\n+%s %s\n", what, want, what, got)
	}
}

func diffSection(out *strings.Builder, name string, want []wantedRR, got []dns.RR, ordered bool) {
	missing, surplus := unmatched(want, got)
	if len(missing)+len(surplus) == 0 && (!ordered || inOrder(want, got)) {
		return
	}
	fmt.Fprintf(out, " %s\n", name)
	if len(missing)+len(surplus) == 0 {
		fmt.Fprintf(out, "+another order:\n")
		surplus = got
	}
	for _, w := range missing {
		fmt.Fprintf(out, "-%s\n", w)
	}
	for _, rr := range surplus {
		fmt.Fprintf(out, "+%s\n", canonical(rr))
	}
}

// unmatched removes what both have in common. Records with a TTL are matched first, so that a "*"
// never takes their match.
func unmatched(want []wantedRR, got []dns.RR) (missing []wantedRR, surplus []dns.RR) {
	surplus = slices.Clone(got)
	for _, anyTTL := range []bool{false, true} {
		for _, w := range want {
			if w.anyTTL != anyTTL {
				continue
			}
			i := slices.IndexFunc(surplus, w.matches)
			if i < 0 {
				missing = append(missing, w)
				continue
			}
			surplus = slices.Delete(surplus, i, i+1)
		}
	}
	return missing, surplus
}

func inOrder(want []wantedRR, got []dns.RR) bool {
	for i, w := range want {
		if !w.matches(got[i]) {
			return false
		}
	}
	return true
}

// canonical formats a record with its owner name in lower case and blanks for tabs. It keeps the
// case of names in the data.
func canonical(rr dns.RR) string {
	rr = dns.Copy(rr)
	rr.Header().Name = dns.CanonicalName(rr.Header().Name)
	return strings.ReplaceAll(rr.String(), "\t", " ")
}

func flagsOf(m *dns.Msg) []string {
	flags := []string{}
	for i, set := range []bool{m.Authoritative, m.Truncated, m.RecursionDesired, m.RecursionAvailable, m.AuthenticatedData, m.CheckingDisabled} {
		if set {
			flags = append(flags, flagNames[i])
		}
	}
	return flags
}

func edeOf(m *dns.Msg) []string {
	codes := []string{}
	if opt := m.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				codes = append(codes, fmt.Sprint(ede.InfoCode))
			}
		}
	}
	return codes
}

func withoutOPT(extra []dns.RR) []dns.RR {
	return slices.DeleteFunc(slices.Clone(extra), func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
}
