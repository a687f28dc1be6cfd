package dbusapi

import (
	"encoding/binary"
	"net/netip"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// parseServers reads the arguments of SetServers: addresses, each a number (IPv4) or 16 bytes (IPv6), each followed by its
// domains. They may come as arguments of their own, which is what dnsmasq reads, or in an array of variants, which is what it
// says in its introspection and takes for an empty list.
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
		if len(domains) == 0 {
			domains = []string{""}
		}
		more, err := dnsmasqconf.NewRules(addr.String(), domains)
		if err != nil {
			return nil, err
		}
		if rules = append(rules, more...); len(rules) > dnsmasqconf.MaxRules {
			return nil, dnsmasqconf.ErrTooMany
		}
	}
	return rules, nil
}

// cutAddr takes the address that the arguments begin with.
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
			if i == len(body) {
				return addr, nil, refuse("Invalid IP address: %d bytes, not 16", i)
			}
			octet, ok := body[i].(byte)
			if !ok {
				return addr, nil, refuse("Invalid IP address: %d bytes, not 16", i)
			}
			octets[i] = octet
		}
		return netip.AddrFrom16(octets), body[16:], nil
	case string:
		return addr, nil, refuse("Expected an address before the domain '%s'", dnsmasqconf.Printable(first))
	}
	return addr, nil, refuse("Expected a UINT32 or 16 BYTEs for an address, STRINGs for its domains")
}
