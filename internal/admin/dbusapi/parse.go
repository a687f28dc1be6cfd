package dbusapi

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// refuse returns an error about invalid arguments for the caller.
func refuse(format string, args ...any) error {
	return dnsmasqconf.Refusal(fmt.Sprintf(format, args...))
}

// errNoArguments is libdbus's error for a call without arguments, which dnsmasq passes on.
var errNoArguments = refuse("Failed to initialize dbus message iter")

// parseDomainServers parses the argument of SetDomainServers: strings as in dnsmasq's server=
// option.
func parseDomainServers(body []any) ([]dnsmasqconf.Rule, error) {
	if len(body) == 0 {
		return nil, errNoArguments
	}
	texts, ok := body[0].([]string)
	if !ok {
		return nil, refuse("Expected array of string")
	}
	return dnsmasqconf.ParseRules(texts)
}

// parseServersEx parses the argument of SetServersEx: lists of an address and its domains.
func parseServersEx(body []any) ([]dnsmasqconf.Rule, error) {
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
	var rules []dnsmasqconf.Rule
	for _, list := range lists {
		switch {
		case len(list) == 0:
			return nil, refuse("Expected IP address")
		case list[0] == "":
			return nil, refuse("Empty IP address")
		}
		var err error
		if rules, err = appendRules(rules, list[0], list[1:]); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// appendRules adds the rules of a server for its domains, or for all names if there are none.
func appendRules(rules []dnsmasqconf.Rule, address string, domains []string) ([]dnsmasqconf.Rule, error) {
	if len(domains) == 0 {
		domains = []string{""}
	}
	more, err := dnsmasqconf.NewRules(address, domains)
	if err != nil {
		return nil, err
	}
	if rules = append(rules, more...); len(rules) > dnsmasqconf.MaxRules {
		return nil, dnsmasqconf.ErrTooMany
	}
	return rules, nil
}

// parseServers parses the arguments of SetServers: addresses, each a number (IPv4) or 16 bytes
// (IPv6), and each followed by its domains. They may be separate arguments, which is what dnsmasq
// reads. They may also be an array of variants, which dnsmasq's introspection declares but dnsmasq
// treats as an empty list.
func parseServers(body []any) ([]dnsmasqconf.Rule, error) {
	if len(body) == 0 {
		return nil, errNoArguments
	}
	if variants, ok := body[0].([]dbus.Variant); ok && len(body) == 1 {
		body = nil
		for _, v := range variants {
			body = append(body, v.Value())
		}
	}
	var rules []dnsmasqconf.Rule
	for len(body) > 0 {
		addr, rest, err := cutAddr(body)
		if err != nil {
			return nil, err
		}
		var domains []string
		for body = rest; len(body) > 0; body = body[1:] {
			domain, ok := body[0].(string)
			if !ok {
				break
			}
			domains = append(domains, domain)
		}
		if rules, err = appendRules(rules, addr.String(), domains); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func cutAddr(body []any) (addr netip.Addr, rest []any, err error) {
	switch first := body[0].(type) {
	case uint32:
		var octets [4]byte
		binary.BigEndian.PutUint32(octets[:], first)
		return netip.AddrFrom4(octets), body[1:], nil
	case []byte:
		if len(first) == 16 {
			return netip.AddrFrom16([16]byte(first)), body[1:], nil
		}
		return addr, nil, refuse("Invalid IP address: %d bytes, not 16", len(first))
	case byte:
		var octets [16]byte
		for i := range octets {
			var ok bool
			if i < len(body) {
				octets[i], ok = body[i].(byte)
			}
			if !ok {
				return addr, nil, refuse("Invalid IP address: %d bytes, not 16", i)
			}
		}
		return netip.AddrFrom16(octets), body[16:], nil
	case string:
		return addr, nil, refuse("Expected an address before the domain '%s'", dnsmasqconf.Printable(first))
	}
	return addr, nil, refuse("Expected a UINT32 or 16 BYTEs for an address, STRINGs for its domains")
}
