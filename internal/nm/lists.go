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

// Limits for data from outside.
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
	// RoutingOnly means that the name selects queries for the interface's nameservers but is not
	// part of the search list (man nm-settings, dns-search).
	RoutingOnly bool
}

// isWildcard reports whether the domain is "~.".
func (d Domain) isWildcard() bool { return d.RoutingOnly && d.Name.IsRoot() }

// lists splits words into values and refused words, up to the limits.
type lists struct {
	zone                    string // zone of link-local addresses, or ""
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

// parseServer parses a nameserver and adds the zone to a link-local IPv6 address, which is
// unreachable without it. NetworkManager adds the zone in resolv.conf (merge_one_l3cd), but not in
// the environment or on D-Bus.
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
	// Parse again: an interface may have a name that no file can hold.
	return nameserver.Parse(server.String())
}

// parseDomain parses a domain as in NetworkManager's dns-search: a leading "~" makes it
// routing-only. The wildcard is "~." or, as NetworkManager itself writes it, "~".
func parseDomain(word string) (Domain, error) {
	text, routing := strings.CutPrefix(word, "~")
	if routing && text == "" {
		text = "."
	}
	name, err := dnsname.Parse(text)
	return Domain{Name: name, RoutingOnly: routing}, err
}

// searchNames returns the domains for a search list. The root is left out, because glibc does not
// use it.
func searchNames(domains []Domain) []string {
	var names []string
	for _, d := range domains {
		if !d.RoutingOnly && !d.Name.IsRoot() {
			names = append(names, d.Name.Relative())
		}
	}
	return names
}

// words splits a variable at blanks, because nm-dispatcher joins its lists with them. Other white
// space stays in the word and makes it invalid, because NetworkManager never uses it as a
// separator. cut reports whether the value was too long. A word that the limit cuts is dropped,
// because a part of an address can be a valid address.
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

// quoted makes a refused word safe for logs and files.
func quoted(word string) string {
	if len(word) > maxRefused {
		word = word[:maxRefused]
	}
	return strconv.QuoteToASCII(word)
}

// printable makes free text safe for logs and files: it replaces unprintable characters by U+FFFD
// and cuts the text at limit.
func printable(text string, limit int) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text[:min(len(text), limit)])
}
