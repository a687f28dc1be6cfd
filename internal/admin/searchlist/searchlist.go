// Package searchlist is what becomes of a name on its way through a resolv.conf: which names a C library asks for, in which order
// and how often, and the resolv.conf that a kubelet gives to a pod.
//
// It is apart from resolvconf, which is about the text of one file, and from autopath, which walks the list on the node. It asks
// nobody: who calls it brings the answers.
package searchlist

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/node-dns/node-dns/internal/resolvconf"
)

// Conf is what a resolv.conf says.
type Conf struct {
	Nameservers []netip.Addr
	Search      []string // as they are written, repetitions too
	Options     []string // "ndots:5"
	// LocalDomain is the host name's domain, which glibc takes for a list that is not there; "": it has none.
	LocalDomain string
}

// Of is what a file says.
func Of(f *resolvconf.File) Conf {
	return Conf{Nameservers: f.Nameservers(), Search: f.Written(), Options: f.Options()}
}

// Library is a C library's resolver.
type Library string

// The libraries. What is said of them was found with glibc 2.36 and musl 1.2.3.
const (
	GLibc Library = "glibc"
	Musl  Library = "musl" // Alpine Linux's
)

const (
	// maxServers is MAXNS of both libraries: further nameservers are not asked.
	maxServers = 3
	// maxName is the longest name in text, with its final dot: 255 octets on the wire, RFC 1035 section 3.1.
	maxName = 254
	// muslLine is the longest line that musl reads, its end not counted: a longer one it leaves out whole (get_resolv_conf).
	muslLine = 254
)

// number is what an option NAME:N says, at most highest; byDefault where it is not there. The last one counts.
func (c Conf) number(name string, byDefault, highest int) int {
	n := byDefault
	for _, option := range c.Options {
		text, ok := strings.CutPrefix(option, name+":")
		if !ok {
			continue
		}
		if given, err := strconv.ParseUint(text, 10, 31); err == nil {
			n = min(int(given), highest)
		}
	}
	return n
}

// Ndots is how many dots make a name go before the search list: 1 by default, 15 (RES_MAXNDOTS) at most.
func (c Conf) Ndots() int { return c.number("ndots", 1, 15) }

// search is the list that a library goes by.
func (c Conf) search(lib Library) []string {
	switch {
	case lib == Musl && len("search ")+len(strings.Join(c.Search, " ")) > muslLine:
		return nil
	case lib == GLibc && len(c.Search) == 0 && c.LocalDomain != "":
		return []string{c.LocalDomain}
	}
	return c.Search
}

// servers is how many nameservers a library knows; without one it asks this host.
func (c Conf) servers() int { return max(1, min(len(c.Nameservers), maxServers)) }

// Names are the names that a library asks for until it finds one, with their final dots. A name with a final dot is whole.
//
// glibc (res_search of resolv/res_query.c): a name with as many dots as ndots is asked for as it is, and then with the list; one
// with fewer the other way round. A domain that makes it too long ends the list. musl (name_from_dns_search): a name with
// as many dots is asked for as it is alone, and a domain that makes it too long is left out.
func (c Conf) Names(lib Library, name string) []string {
	plain := strings.TrimSuffix(name, ".")
	whole := plain + "."
	enough := strings.Count(plain, ".") >= c.Ndots()
	if name == whole || lib == Musl && enough {
		return []string{whole}
	}
	var names []string
	if enough {
		names = append(names, whole)
	}
	list := c.search(lib)
	tried := enough
	for _, domain := range list {
		domain = strings.Trim(domain, ".")
		if domain == "" && lib == Musl {
			return names // it asks for a name with an empty label, has no answer after 5 s, and ends
		}
		candidate := whole
		if domain != "" {
			candidate = whole + domain + "."
		}
		tried = tried || domain == ""
		if len(candidate) <= maxName {
			names = append(names, candidate)
		} else if lib == GLibc {
			break
		}
	}
	isPlain := !strings.Contains(plain, ".") && len(list) > 0 && slices.Contains(c.Options, "no-tld-query") && lib == GLibc
	if !tried && !isPlain {
		names = append(names, whole)
	}
	return names
}

// Result is what there is of a name for one type of address.
type Result int

// The results.
const (
	Absent  Result = iota // NXDOMAIN
	NoData                // NOERROR without a record
	Found                 // NOERROR with records, be it an alias alone
	Failed                // SERVFAIL
	Refused               // any other rcode
)

// Walk returns the names that a library asks for until it ends. ask returns A before AAAA, and always the same for a name.
func (c Conf) Walk(lib Library, name string, ask func(name string) []Result) (asked []string) {
	names := c.Names(lib, name)
	for i := 0; i < len(names); i++ {
		asked = append(asked, names[i])
		switch lib.after(c.seen(lib, ask(names[i]))) {
		case ends:
			return asked
		case skips:
			whole := strings.TrimSuffix(name, ".") + "."
			if slices.Contains(asked, whole) || names[len(names)-1] != whole {
				return asked
			}
			i = max(i, len(names)-2)
		}
	}
	return asked
}

// seen are the results of the types that a library asks for: no-aaaa (glibc 2.36) leaves AAAA out.
func (c Conf) seen(lib Library, results []Result) []Result {
	if lib == GLibc && slices.Contains(c.Options, "no-aaaa") {
		return results[:min(1, len(results))]
	}
	return results
}

// step is what a library does after a name.
type step int

const (
	goesOn step = iota
	skips       // the rest of the list: the name as it is comes next
	ends
)

// after is where the libraries differ. glibc goes past names that have other records and past a server's failure, and leaves the list
// at any other; musl goes on after NXDOMAIN alone, and looks at A before AAAA.
func (lib Library) after(results []Result) step {
	if lib == GLibc {
		switch {
		case slices.Contains(results, Found):
			return ends
		case slices.Contains(results, Refused):
			return skips
		}
		return goesOn
	}
	for _, result := range results {
		switch result {
		case Absent:
			return goesOn
		case Failed, Refused:
			return ends
		}
	}
	return ends
}

// Queries is how many a library sends for one name with these results, a type of address each. atLeast: it sends more, as
// long as its time lasts. glibc asks one nameserver after the other, musl all at once.
func (c Conf) Queries(lib Library, results []Result) (n int, atLeast bool) {
	results = c.seen(lib, results)
	failed := 0
	for _, result := range results {
		if result == Failed || result == Refused {
			failed++
		}
	}
	switch {
	case lib == Musl:
		return len(results) * c.servers(), failed > 0
	case failed == len(results):
		return len(results) * c.servers() * max(1, c.number("attempts", 2, 5)), false
	}
	return len(results), failed > 0
}
