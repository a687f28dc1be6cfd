package resolvconf

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Content is the content of a resolv.conf, as a C library reads it.
type Content struct {
	Nameservers []netip.Addr
	Search      []string // as written, including duplicates
	Options     []string // "ndots:5"
	// LocalDomain is the host name's domain, which glibc uses if there is no search list; "" if
	// there is none.
	LocalDomain string
}

// Content returns the content of the file.
func (f *File) Content() Content {
	return Content{Nameservers: f.Nameservers(), Search: f.Written(), Options: f.Options()}
}

// Library is a C library's resolver.
type Library string

// The libraries. Their behavior was observed with glibc 2.36 and musl 1.2.3.
const (
	GLibc Library = "glibc"
	Musl  Library = "musl" // Alpine Linux
)

const (
	// maxServers is MAXNS of both libraries. They do not query further nameservers.
	maxServers = 3
	// maxName is the longest name as text with its final dot: 255 bytes on the wire, RFC 1035
	// section 3.1.
	maxName = 254
	// muslLine is the longest line that musl reads, without its end. It skips a longer one entirely
	// (get_resolv_conf).
	muslLine = 254
)

// number returns the value of an option NAME:N, at most highest, or byDefault without the option.
// The last one counts.
func (c Content) number(name string, byDefault, highest int) int {
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

// Ndots is the number of dots with which a name is tried before the search list: 1 by default, at
// most 15 (RES_MAXNDOTS).
func (c Content) Ndots() int { return c.number("ndots", 1, 15) }

// search returns the search list that a library uses.
func (c Content) search(lib Library) []string {
	switch {
	case lib == Musl && len("search ")+len(strings.Join(c.Search, " ")) > muslLine:
		return nil
	case lib == GLibc && len(c.Search) == 0 && c.LocalDomain != "":
		return []string{c.LocalDomain}
	}
	return c.Search
}

// servers returns how many nameservers a library uses. Without one it queries this host.
func (c Content) servers() int { return max(1, min(len(c.Nameservers), maxServers)) }

// Names returns the names that a library queries until one exists, with final dots. A name with a
// final dot is complete.
//
// glibc (res_search of resolv/res_query.c): a name with at least ndots dots is queried as it is,
// and then with the search list. A name with fewer dots is queried in the opposite order. A domain
// that makes it too long ends the list. musl (name_from_dns_search): a name with at least ndots
// dots is only queried as it is. A domain that makes it too long is skipped.
func (c Content) Names(lib Library, name string) []string {
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
			return names // musl queries a name with an empty label, gets no answer within 5 s, and stops
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

// Result is the answer for a name and one type of address.
type Result int

// The results.
const (
	Absent  Result = iota // NXDOMAIN
	NoData                // NOERROR without a record
	Found                 // NOERROR with records, even if only an alias
	Failed                // SERVFAIL
	Refused               // any other rcode
)

// Walk returns the names that a library queries until it stops. ask returns A before AAAA, and
// always the same for a name.
func (c Content) Walk(lib Library, name string, ask func(name string) []Result) (asked []string) {
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

// seen returns the results of the types that a library queries: no-aaaa (glibc 2.36) omits AAAA.
func (c Content) seen(lib Library, results []Result) []Result {
	if lib == GLibc && slices.Contains(c.Options, "no-aaaa") {
		return results[:min(1, len(results))]
	}
	return results
}

// step is a library's next step after a name.
type step int

const (
	continues step = iota
	skips          // skips the rest of the list and continues with the name as it is
	ends
)

// after implements the difference between the libraries. glibc continues after names that have
// other records and after a server's failure, and leaves the list on any other error. musl
// continues only after NXDOMAIN, and checks A before AAAA.
func (lib Library) after(results []Result) step {
	if lib == GLibc {
		switch {
		case slices.Contains(results, Found):
			return ends
		case slices.Contains(results, Refused):
			return skips
		}
		return continues
	}
	for _, result := range results {
		switch result {
		case Absent:
			return continues
		case Failed, Refused:
			return ends
		}
	}
	return ends
}

// Queries returns how many queries a library sends for one name with these results, one result per
// address type. atLeast means that it sends more while it has time left. glibc queries one
// nameserver after the other, musl all of them at once.
func (c Content) Queries(lib Library, results []Result) (n int, atLeast bool) {
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
