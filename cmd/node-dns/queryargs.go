package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/miekg/dns"
	"golang.org/x/net/idna"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// maxQueryNames is the maximum number of names on one command line.
const maxQueryNames = 16

// queryFlags are the flags that select the question and the server.
type queryFlags struct {
	reverse  string // an address
	qtype    string // "" means that an argument may be the type
	tcp, tls bool
	how      control.Question
	lookup   func(host string) (netip.Addr, error) // finds the address of @SERVER
}

// readQuestions parses arguments as dig does, and returns one question per name. A type or class is
// recognized anywhere, but a single argument is a name, and so is the argument after a type.
func readQuestions(words []string, flags queryFlags) ([]control.LookupQuestion, error) {
	servers := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !strings.HasPrefix(word, "@") })
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.HasPrefix(word, "@") })
	base := control.LookupQuestion{How: flags.how}
	var err error
	if base.Direct, err = readServer(servers, flags); err != nil {
		return nil, err
	}
	qtype := strings.ToUpper(flags.qtype)
	if qtype != "" && !isType(qtype) {
		return nil, unknownType(qtype)
	}
	var names []string
	mayBeName := len(words) < 2 && flags.reverse == ""
	for _, word := range words {
		upper := strings.ToUpper(word)
		switch {
		case qtype == "" && !mayBeName && isType(upper):
			qtype = upper
		case base.How.Class == "" && !mayBeName && (upper == "IN" || upper == "CH"):
			base.How.Class = upper
		default:
			names = append(names, word)
		}
	}
	if i := slices.IndexFunc(names, looksLikeType); qtype == "" && i >= 0 && slices.ContainsFunc(names, func(name string) bool { return !looksLikeType(name) }) {
		return nil, unknownType(names[i])
	}
	if len(names) > maxQueryNames {
		return nil, fmt.Errorf("%d names: expected at most %d", len(names), maxQueryNames)
	}
	var questions []control.LookupQuestion
	if flags.reverse != "" {
		addr, err := netip.ParseAddr(flags.reverse)
		if err != nil {
			return nil, fmt.Errorf("-x %q: expected an address", flags.reverse)
		}
		questions = append(questions, reverseOf(base, addr, qtype))
	}
	for _, name := range names {
		question, err := questionFor(base, name, qtype)
		if err != nil {
			return nil, err
		}
		questions = append(questions, question)
	}
	if len(questions) == 0 {
		return nil, fmt.Errorf("expected a name")
	}
	return questions, nil
}

// questionFor returns the question for a name, or the reverse question for an IP address.
func questionFor(base control.LookupQuestion, name, qtype string) (control.LookupQuestion, error) {
	if addr, err := netip.ParseAddr(name); err == nil && (qtype == "" || qtype == "PTR") {
		return reverseOf(base, addr, qtype), nil
	}
	q := base
	if qtype != "" {
		q.Types = []string{qtype}
	}
	var err error
	q.Name, err = toASCII(name)
	return q, err
}

func reverseOf(base control.LookupQuestion, addr netip.Addr, qtype string) control.LookupQuestion {
	if qtype == "" {
		qtype = "PTR"
	}
	base.Name, base.Types = dnsname.Reverse(addr.WithZone("")).String(), []string{qtype}
	return base
}

// toASCII converts a name to ASCII by IDNA (RFC 5891), mapped as in browsers (UTS 46). Blanks and
// control characters are usually mistakes, so they must be escaped as \032, or "\ " for a blank.
func toASCII(name string) (string, error) {
	isOdd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == utf8.RuneError }
	if strings.ContainsFunc(strings.ReplaceAll(name, `\ `, ""), isOdd) {
		return "", fmt.Errorf("%q: expected a name", name)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		profile := idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.StrictDomainName(false))
		ascii, err := profile.ToASCII(name)
		if err != nil {
			return "", fmt.Errorf("%q: expected a name: %w", name, err)
		}
		name = ascii
	}
	if _, ok := dns.IsDomainName(name); !ok || name == "" {
		return "", fmt.Errorf("%q: expected a name", name)
	}
	return name, nil
}

// readServer returns the server that the flags and arguments select; nil means the daemon.
func readServer(words []string, flags queryFlags) (*control.Direct, error) {
	switch {
	case len(words) > 1:
		return nil, fmt.Errorf("%s: expected one server, not %d", strings.Join(words, " "), len(words))
	case flags.tcp && flags.tls:
		return nil, fmt.Errorf("--tcp and --tls cannot be combined")
	case len(words) == 1 && flags.how.As != "":
		return nil, fmt.Errorf("--as cannot be used with @SERVER; only the daemon knows its clients")
	case len(words) == 1 && flags.how.Fresh:
		return nil, fmt.Errorf("--fresh cannot be used with @SERVER; only the daemon has the cache")
	case len(words) == 1:
	case flags.tcp:
		return nil, fmt.Errorf("--tcp requires @SERVER; the daemon is queried over its control socket")
	case flags.tls:
		return nil, fmt.Errorf("--tls requires @SERVER; the daemon is queried over its control socket")
	default:
		return nil, nil
	}
	text := strings.TrimPrefix(words[0], "@")
	if flags.tls && !strings.Contains(text, "://") {
		text = "dns+tls://" + text
	}
	server, err := nameserver.Parse(text)
	if host, with, ok := cutHost(text); ok && errors.Is(err, nameserver.ErrAddress) {
		if _, err = nameserver.Parse(with(netip.IPv6Loopback())); err == nil { // the rest is valid
			addr, lost := flags.lookup(host)
			if lost != nil {
				return nil, fmt.Errorf("%s: %w", words[0], lost)
			}
			server, err = nameserver.Parse(with(addr))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: expected an address or a host name, such as @192.0.2.53, @[2001:db8::53]:53, @ns.example or @dns+tls://192.0.2.53#dns.example", words[0])
	}
	if flags.tls && !server.TLS {
		return nil, fmt.Errorf("%s: --tls cannot be combined with another protocol", words[0])
	}
	return &control.Direct{Server: server, TCP: flags.tcp}, nil
}

// cutHost finds the host name in a nameserver. with returns the nameserver with the host's address.
// TLS then verifies the host name.
func cutHost(text string) (host string, with func(netip.Addr) string, ok bool) {
	scheme, rest, hasScheme := strings.Cut(text, "://")
	if !hasScheme {
		rest = text
	}
	host, port, hasPort := strings.Cut(rest, ":")
	host, err := toASCII(host)
	top := host[strings.LastIndex(strings.TrimSuffix(host, "."), ".")+1:]
	if err != nil || strings.ContainsAny(host, "#[]/") || strings.Trim(top, "0123456789.") == "" { // RFC 3696 section 2
		return "", nil, false
	}
	return host, func(addr netip.Addr) string {
		text := addr.String()
		if hasPort {
			text = net.JoinHostPort(text, port)
		}
		switch {
		case !hasScheme:
			return text
		case strings.EqualFold(scheme, "dns+tls"):
			text += "#" + host
		}
		return scheme + "://" + text
	}, true
}

// isType reports whether a word is a record type.
func isType(word string) bool {
	n, ok := dnswire.ParseType(word)
	return ok && n != dns.TypeNone
}

// looksLikeType reports whether a word is in upper case, like types and unlike names.
func looksLikeType(word string) bool {
	return strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == "" && strings.ContainsFunc(word, unicode.IsUpper)
}

// unknownType returns an error that suggests the type that was probably meant.
func unknownType(word string) error {
	names := slices.Sorted(maps.Keys(dns.StringToType))
	if near := nodeconfig.Likely(word, names); near != "" {
		return fmt.Errorf("unknown record type %q; did you mean %s?", word, near)
	}
	return fmt.Errorf(`unknown record type %q; expected a type such as AAAA or TYPE65, or write "%s." for the name`, word, strings.ToLower(word))
}
