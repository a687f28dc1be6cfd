package dnstest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const badVers = "BADVERS"

var (
	sectionNames = []string{"ANSWER", "AUTHORITY", "ADDITIONAL"}
	flagNames    = []string{"aa", "tc", "rd", "ra", "ad", "cd"} // in the order of flagsOf
)

// wanted is the parsed first argument of Diff.
type wanted struct {
	rcode      int
	flags, ede *[]string // nil if not compared
	ordered    bool
	sections   [3][]wantedRR
}

type wantedRR struct {
	rr     dns.RR
	anyTTL bool
}

func (w wantedRR) String() string {
	text := canonical(w.rr)
	if w.anyTTL { // stored as 0
		owner := len(w.rr.Header().Name)
		text = text[:owner] + strings.Replace(text[owner:], "0", "*", 1)
	}
	return text
}

func (w wantedRR) matches(rr dns.RR) bool {
	if w.anyTTL {
		rr = dns.Copy(rr)
		rr.Header().Ttl = 0
	}
	return canonical(w.rr) == canonical(rr)
}

func parseWanted(text string) (*wanted, error) {
	w := new(wanted)
	section := 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		var err error
		switch directive, said := strings.CutPrefix(line, ";;"); {
		case said:
			section, err = w.direct(strings.Fields(directive), section)
		case line == "" || line[0] == ';':
		default:
			var rr wantedRR
			rr, err = parseWantedRR(line)
			w.sections[section] = append(w.sections[section], rr)
		}
		if err != nil {
			return nil, fmt.Errorf("parsing the wanted response: line %d: %w", i+1, err)
		}
	}
	return w, nil
}

// direct parses a line with two semicolons and returns the section for the following lines.
func (w *wanted) direct(words []string, section int) (int, error) {
	if len(words) == 0 {
		return section, fmt.Errorf("nothing after ;;")
	}
	if i := slices.Index(sectionNames, words[0]); i >= 0 && len(words) == 1 {
		return i, nil
	}
	rcode, known := rcodeOf(words[0])
	switch arguments := words[1:]; {
	case known && len(arguments) == 0:
		w.rcode = rcode
	case words[0] == "ordered" && len(arguments) == 0:
		w.ordered = true
	case words[0] == "ede":
		w.ede = &arguments
	case words[0] == "flags":
		for _, flag := range arguments {
			if !slices.Contains(flagNames, flag) {
				return section, fmt.Errorf("unknown flag %q", flag)
			}
		}
		slices.SortFunc(arguments, func(a, b string) int { return slices.Index(flagNames, a) - slices.Index(flagNames, b) })
		arguments = slices.Compact(arguments)
		w.flags = &arguments
	default:
		return section, fmt.Errorf("unknown line \";; %s\"", strings.Join(words, " "))
	}
	return section, nil
}

// rcodeText and rcodeOf use BADVERS for 16 (RFC 6891); the library uses BADSIG (RFC 8945).
func rcodeText(rcode int) string {
	text, known := dns.RcodeToString[rcode]
	switch {
	case rcode == dns.RcodeBadVers:
		return badVers
	case !known:
		return fmt.Sprintf("RCODE%d", rcode)
	}
	return text
}

func rcodeOf(text string) (int, bool) {
	if text == badVers {
		return dns.RcodeBadVers, true
	}
	rcode, known := dns.StringToRcode[text]
	return rcode, known
}

func parseWantedRR(line string) (wantedRR, error) {
	fields := strings.Fields(line)
	if len(fields) < 4 || line[0] == '$' { // NewRR supports $INCLUDE and $GENERATE
		return wantedRR{}, fmt.Errorf("%q is not a record with owner, TTL, type and data", line)
	}
	anyTTL := fields[1] == "*"
	if anyTTL {
		owner, rest := line[:len(fields[0])], line[len(fields[0]):] // the owner may be a wildcard
		line = owner + strings.Replace(rest, "*", "0", 1)
	}
	rr, err := dns.NewRR(line)
	switch {
	case err != nil:
		return wantedRR{}, err
	case !anyTTL && fmt.Sprint(rr.Header().Ttl) != fields[1]:
		return wantedRR{}, fmt.Errorf("%q has no TTL; \"*\" is any", line)
	}
	received, err := asReceived(rr)
	return wantedRR{received, anyTTL}, err
}
