package dnsmasqconf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// MaxRules bounds the rules of one call. OpenShift's SDN sends a handful, and NetworkManager sends
// one for each server and domain of its connections.
const MaxRules = 1000

// A Refusal is the error for a caller with invalid arguments, in dnsmasq's words if dnsmasq refuses
// them too.
type Refusal string

func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// invalid is an invalid address or domain. For a caller it is a Refusal in dnsmasq's words. For a
// file, the fault takes text and why from it.
type invalid struct {
	what, text string
	why        error
}

func (i invalid) Error() string {
	return fmt.Sprintf("Invalid %s '%s': %v", i.what, Printable(i.text), i.why)
}

func (i invalid) Unwrap() error { return Refusal(i.Error()) }

// Addresses that do not mean a server.
var (
	unspecified4 = netip.IPv4Unspecified()
	broadcast    = netip.AddrFrom4([4]byte{255, 255, 255, 255})
)

// ParseRules parses strings in the syntax of dnsmasq's server= option: "10.0.0.1#5353",
// "/a.example/b.example/10.0.0.1", "/a.example/" and "/a.example/#". An error names the first
// invalid one.
func ParseRules(texts []string) ([]Rule, error) {
	var rules []Rule
	for _, text := range texts {
		domains, address := []string{""}, text
		if i := strings.LastIndexByte(text, '/'); i >= 0 {
			if address = text[i+1:]; text[0] != '/' || i == 0 {
				return nil, refuse("No domain terminator '%s'", Printable(address))
			}
			domains = strings.Split(text[1:i], "/")
		} else if text == "" {
			return nil, refuse("Empty string")
		}
		more, err := NewRules(address, domains)
		if err != nil {
			return nil, err
		}
		if rules = append(rules, more...); len(rules) > MaxRules {
			return nil, ErrTooMany
		}
	}
	return rules, nil
}

// ErrTooMany is the error for exceeding MaxRules, a limit that dnsmasq does not have.
var ErrTooMany = refuse("more than %d servers and domains", MaxRules)

// NewRules returns the rules of an address for domains; "" stands for all names.
func NewRules(address string, domains []string) ([]Rule, error) {
	rule, isNone := Rule{}, false
	switch address {
	case "":
		rule.Kind = Local
	case "#":
		rule.Kind = Standard
	default:
		server, err := nameserver.ParseDnsmasq(address)
		if err == nil {
			err = unusable(server.Addr.Addr())
		}
		switch {
		case err != nil:
			return nil, invalid{"IP address", address, reasonOf(err)}
		case server.Addr.Addr() == unspecified4:
			rule.Kind, isNone = Local, true
		default:
			rule.Server = server
		}
	}
	rules, err := rule.forDomains(domains)
	if isNone {
		// No server for all names: dnsmasq 2.90 ignores this, except in SetServersEx, where no name
		// exists afterwards.
		rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Domain.IsRoot() })
	}
	return rules, err
}

func (r Rule) forDomains(domains []string) ([]Rule, error) {
	var rules []Rule
	for _, text := range domains {
		domain, err := parseSuffix(text)
		if err != nil {
			return nil, invalid{"domain", text, err}
		}
		r.Domain = domain
		rules = append(rules, r)
	}
	return rules, nil
}

// unusable returns why an address cannot be a server's, or nil. For dnsmasq 0.0.0.0 means "no
// server". dnsmasq would send queries to ::, and so to itself.
func unusable(addr netip.Addr) error {
	switch {
	case addr == netip.IPv6Unspecified():
		return errors.New("unspecified")
	case addr.IsMulticast(), addr == broadcast:
		return errors.New("not one host's address")
	}
	return nil
}

// reasonOf returns the reason without the repeated text.
func reasonOf(err error) error {
	for _, known := range []error{
		nameserver.ErrAddress, nameserver.ErrZone, nameserver.ErrPort, nameserver.ErrInterface, nameserver.ErrSource, nameserver.ErrSourcePort,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

// parseSuffix is parseDomain for a domain that includes all names below it. "*.a.example", which
// for dnsmasq 2.86 and later means only the names below, is treated like "a.example".
func parseSuffix(text string) (dnsname.Name, error) {
	if rest, ok := strings.CutPrefix(text, "*."); ok && rest != "" {
		text = rest
	}
	return parseDomain(text)
}

// parseDomain parses a domain like dnsmasq: leading dots are ignored, "" and "*" are all names, and
// other scripts are written in ASCII. Wildcards within a label ("*a.example" for all names that end
// in these letters) are refused.
func parseDomain(text string) (dnsname.Name, error) {
	text = strings.TrimLeft(text, ".")
	if text == "" || text == "*" {
		return dnsname.Root(), nil
	}
	if strings.Contains(text, "*") {
		return dnsname.Name{}, errors.New("a wildcard; a domain includes all names below it anyway")
	}
	ascii, err := idna.Lookup.ToASCII(text)
	if err != nil || isASCII(text) {
		ascii = text // it may have underscores
	}
	name, err := dnsname.Parse(ascii)
	for _, known := range []error{dnsname.ErrTooLong, dnsname.ErrLabel, dnsname.ErrCharacter} {
		if errors.Is(err, known) {
			err = known
		}
	}
	return name, err
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r > '~' }) < 0
}

// Printable returns a string that is safe for a log and a reply.
func Printable(text string) string {
	const longest = 100
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
