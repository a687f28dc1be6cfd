package bus

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
	"golang.org/x/net/idna"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// maxRules bounds what one call sets. OpenShift's SDN sends a handful, NetworkManager one for each server and domain of its
// connections.
const maxRules = 1000

// A refusal is what a caller is told of arguments that are not taken over: in dnsmasq's words, where it refuses them too.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// errNoArguments is libdbus's word for a call without arguments, as dnsmasq hands it on.
var errNoArguments = refuse("Failed to initialize dbus message iter")

// The addresses that stand for no server.
var (
	unspecified4 = netip.IPv4Unspecified()
	broadcast    = netip.AddrFrom4([4]byte{255, 255, 255, 255})
)

// parseDomainServers reads the argument of SetDomainServers: texts as of dnsmasq's server= option.
func parseDomainServers(body []any) ([]Rule, error) {
	if len(body) == 0 {
		return nil, errNoArguments
	}
	texts, ok := body[0].([]string)
	if !ok {
		return nil, refuse("Expected array of string")
	}
	return ParseRules(texts)
}

// ParseRules reads texts as of dnsmasq's server= option: "10.0.0.1#5353", "/a.example/b.example/10.0.0.1", "/a.example/" and
// "/a.example/#". An error names the first text that is none.
func ParseRules(texts []string) ([]Rule, error) {
	var rules []Rule
	for _, text := range texts {
		domains, address := []string{""}, text
		if i := strings.LastIndexByte(text, '/'); i >= 0 {
			if address = text[i+1:]; text[0] != '/' || i == 0 {
				return nil, refuse("No domain terminator '%s'", printable(address))
			}
			domains = strings.Split(text[1:i], "/")
		} else if text == "" {
			return nil, refuse("Empty string")
		}
		more, err := newRules(address, domains)
		if err != nil {
			return nil, err
		}
		if rules = append(rules, more...); len(rules) > maxRules {
			return nil, errTooMany
		}
	}
	return rules, nil
}

// errTooMany is a bound that dnsmasq does not have.
var errTooMany = refuse("more than %d servers and domains", maxRules)

// parseServersEx reads the argument of SetServersEx: lists of an address and its domains.
func parseServersEx(body []any) ([]Rule, error) {
	if len(body) == 0 {
		return nil, errNoArguments
	}
	lists, ok := body[0].([][]string)
	if !ok {
		if signature := dbus.SignatureOf(body[0]).String(); strings.HasPrefix(signature, "aa") {
			return nil, refuse("Expected inner array of strings")
		}
		return nil, refuse("Expected array of string arrays")
	}
	var rules []Rule
	for _, list := range lists {
		switch {
		case len(list) == 0:
			return nil, refuse("Expected IP address")
		case list[0] == "":
			return nil, refuse("Empty IP address")
		}
		domains := list[1:]
		if len(domains) == 0 {
			domains = []string{""}
		}
		more, err := newRules(list[0], domains)
		if err != nil {
			return nil, err
		}
		if rules = append(rules, more...); len(rules) > maxRules {
			return nil, errTooMany
		}
	}
	return rules, nil
}

// newRules is what an address says of domains; "" stands for all names.
func newRules(address string, domains []string) ([]Rule, error) {
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
			return nil, refuse("Invalid IP address '%s': %v", printable(address), reasonOf(err))
		case server.Addr.Addr() == unspecified4:
			rule.Kind, isNone = Local, true
		default:
			rule.Server = server
		}
	}
	rules, err := rule.forDomains(domains)
	if isNone {
		// No server for all names: dnsmasq 2.90 takes that for nothing said, but in SetServersEx, where no name exists then.
		rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Domain.IsRoot() })
	}
	return rules, err
}

func (r Rule) forDomains(domains []string) ([]Rule, error) {
	var rules []Rule
	for _, text := range domains {
		domain, err := parseDomain(text)
		if err != nil {
			return nil, refuse("Invalid domain '%s': %v", printable(text), err)
		}
		r.Domain = domain
		rules = append(rules, r)
	}
	return rules, nil
}

// unusable says why an address is no server's. 0.0.0.0 is "no server" to dnsmasq; :: it would ask, and reach itself.
func unusable(addr netip.Addr) error {
	switch {
	case addr == netip.IPv6Unspecified():
		return errors.New("unspecified")
	case addr.IsMulticast(), addr == broadcast:
		return errors.New("not one host's address")
	}
	return nil
}

// reasonOf leaves out what repeats the text.
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

// parseDomain reads a domain as dnsmasq does: dots in front count for nothing, "" and "*" are all names, and letters of other
// scripts are written in ASCII. Its wildcards within a label ("*a.example" for all that ends in these letters) are refused.
func parseDomain(text string) (dnsname.Name, error) {
	text = strings.TrimLeft(text, ".")
	if text == "" || text == "*" {
		return dnsname.Root(), nil
	}
	if strings.Contains(text, "*") {
		return dnsname.Name{}, errors.New("a wildcard; a domain has all names below it anyway")
	}
	ascii, err := idna.Lookup.ToASCII(text)
	if err != nil || isASCII(text) {
		ascii = text // which may have underscores
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

// printable is a text that may go into a log and a reply.
func printable(text string) string {
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
