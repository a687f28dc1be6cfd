// Package searchlist is what becomes of a name on its way through a resolv.conf: which names a C library asks for, in which order
// and how often, and the resolv.conf that a kubelet gives to a pod.
//
// It is apart from resolvconf, which is about the text of one file, and from autopath, which walks the list on the node. It asks
// nobody: who calls it brings the answers.
package searchlist

import (
	"net/netip"
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

func (c Conf) has(option string) bool {
	for _, given := range c.Options {
		if given == option {
			return true
		}
	}
	return false
}

// Ndots is how many dots a name needs to be asked for as it is before the search list: 1 where nothing is said, 15 at most
// (RES_MAXNDOTS).
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
