package nm

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Bounds on what comes from outside.
const (
	maxValue   = 64 << 10 // bytes of one variable
	maxList    = 64       // nameservers, domains and refused words of one list
	maxRefused = 64       // bytes of a refused word
	maxName    = 255      // bytes of an interface's, connection's or action's name
)

// A Domain is one entry of an interface's list of domains.
type Domain struct {
	// Name is the root for the wildcard "~.".
	Name dnsname.Name
	// RoutingOnly means that the name says which queries go to the interface's
	// nameservers, and is not for the search list (man nm-settings, dns-search).
	RoutingOnly bool
}

// isWildcard reports whether the domain is "~.".
func (d Domain) isWildcard() bool { return d.RoutingOnly && d.Name.IsRoot() }

// lists collects words into values and refused words, up to their bounds.
type lists struct {
	zone                    string // the interface that link-local addresses belong to, or ""
	servers                 []nameserver.Server
	domains                 []Domain
	invalid, invalidDomains []string
	truncated               bool
}

func (l *lists) addServers(words []string, cut bool) {
	l.truncated = l.truncated || cut
	for _, word := range words {
		server, err := parseServer(word, l.zone)
		switch {
		case err != nil && len(l.invalid) < maxList:
			l.invalid = append(l.invalid, quoted(word))
		case err == nil && len(l.servers) < maxList:
			l.servers = append(l.servers, server)
		default:
			l.truncated = true
		}
	}
}

func (l *lists) addDomains(words []string, cut bool) {
	l.truncated = l.truncated || cut
	for _, word := range words {
		domain, err := parseDomain(word)
		switch {
		case err != nil && len(l.invalidDomains) < maxList:
			l.invalidDomains = append(l.invalidDomains, quoted(word))
		case err == nil && len(l.domains) < maxList:
			l.domains = append(l.domains, domain)
		default:
			l.truncated = true
		}
	}
}

// parseServer reads a nameserver, and gives a link-local IPv6 address the zone
// without which it cannot be reached: NetworkManager adds it in resolv.conf
// (merge_one_l3cd), but neither in the environment nor on D-Bus.
func parseServer(word, zone string) (nameserver.Server, error) {
	server, err := nameserver.Parse(word)
	if err != nil {
		return nameserver.Server{}, err
	}
	addr := server.Addr.Addr()
	if !addr.Is6() || !addr.IsLinkLocalUnicast() || addr.Zone() != "" {
		return server, nil
	}
	if zone == "" {
		return nameserver.Server{}, nameserver.ErrZone
	}
	server.Addr = netip.AddrPortFrom(addr.WithZone(zone), server.Addr.Port())
	// Parsed once more: an interface may have a name that no file can hold.
	return nameserver.Parse(server.String())
}

// parseDomain reads a domain as NetworkManager's dns-search has it: "~" in front
// makes it routing-only, and the wildcard is "~." or, as NetworkManager itself
// writes it, "~".
func parseDomain(word string) (Domain, error) {
	text, routing := strings.CutPrefix(word, "~")
	if routing && text == "" {
		text = "."
	}
	name, err := dnsname.Parse(text)
	return Domain{Name: name, RoutingOnly: routing}, err
}

// searchNames are the domains that may stand in a search list; the root may not,
// because glibc gains nothing from it.
func searchNames(domains []Domain) []string {
	var names []string
	for _, d := range domains {
		if !d.RoutingOnly && !d.Name.IsRoot() {
			names = append(names, d.Name.Relative())
		}
	}
	return names
}

// words splits a variable at blanks, which is how nm-dispatcher joins its lists.
// Other white space stays in the word and makes it invalid: no NetworkManager
// wrote it as a separator. cut means that the value was too long; the word that
// the bound cuts through is dropped, because a part of an address can be an
// address.
func words(value string) (list []string, cut bool) {
	if len(value) > maxValue {
		value, cut = value[:maxValue+1], true
		value = value[:max(strings.LastIndexByte(value, ' '), 0)]
	}
	for word := range strings.SplitSeq(value, " ") {
		if word != "" {
			list = append(list, word)
		}
	}
	return list, cut
}

// quoted makes a refused word fit for a log line and a file.
func quoted(word string) string {
	if len(word) > maxRefused {
		word = word[:maxRefused]
	}
	return strconv.QuoteToASCII(word)
}

// printable makes a free text fit for a log line and a file: what does not print
// becomes U+FFFD, and what is too long is cut.
func printable(text string, limit int) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text[:min(len(text), limit)])
}
