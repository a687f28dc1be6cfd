package firewall

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// firewalldTable is firewalld's own nftables table.
const firewalldTable = "firewalld"

// Firewalld is the running configuration of firewalld(1). nil means that it does not run or is
// unknown.
type Firewalld struct {
	Default string // zone of all other interfaces and sources
	Zones   []Zone // active zones and the default zone
}

// Zone is a firewalld.zone(5) with the ports of its services.
type Zone struct {
	Name       string
	Target     string   // "default", "ACCEPT", "DROP" or "%%REJECT%%"
	Interfaces []string // names; "+" at the end is a wildcard
	Sources    []string // addresses, networks, MAC addresses, or "ipset:NAME"
	Ports      []Port
	Protocols  []string // IP protocols accepted on all ports
	More       bool     // a rich rule or a policy may accept more
}

// Port is a range of ports that a zone accepts.
type Port struct {
	From, To uint16
	Protocol string // "udp" or "tcp"
}

// parsePort parses a port or a range, as in "53" and "5000-5010".
func parsePort(text, protocol string) (Port, error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	from, err := strconv.ParseUint(low, 10, 16)
	to, highErr := strconv.ParseUint(high, 10, 16)
	if err != nil || highErr != nil || from > to {
		return Port{}, fmt.Errorf("invalid port %q: expected PORT or FROM-TO", text)
	}
	return Port{uint16(from), uint16(to), protocol}, nil
}

// decide returns the zone of a client and its verdict on a query. A nil Firewalld accepts.
func (f *Firewalld) decide(link Link, port uint16, protocol string) (Zone, Verdict) {
	if f == nil {
		return Zone{}, Accept
	}
	z, ok := f.zoneOf(link.Interface, link.Source)
	switch {
	case !ok:
		return z, Unknown
	case z.accepts(port, protocol):
		return z, Accept
	case z.More:
		return z, Unknown
	}
	return z, Drop
}

func (z Zone) accepts(port uint16, protocol string) bool {
	return z.Target == "ACCEPT" || slices.Contains(z.Protocols, protocol) || slices.ContainsFunc(z.Ports, func(p Port) bool {
		return p.Protocol == protocol && p.From <= port && port <= p.To
	})
}

// zoneOf returns the zone of a client. A zone's sources override interfaces (firewalld.zones(5)).
// ok is false if the zone depends on something unknown, such as the members of an ipset.
func (f *Firewalld) zoneOf(name string, client netip.Addr) (z Zone, ok bool) {
	ok = true
	for _, z := range f.Zones {
		for _, source := range z.Sources {
			p, isNetwork := parseSource(source)
			if isNetwork && p.Contains(client) {
				return z, ok
			}
			ok = ok && isNetwork
		}
	}
	for _, z := range f.Zones {
		for _, have := range z.Interfaces {
			if beginning, isWild := strings.CutSuffix(have, "+"); have == name || isWild && strings.HasPrefix(name, beginning) {
				return z, ok
			}
		}
	}
	i := slices.IndexFunc(f.Zones, func(z Zone) bool { return z.Name == f.Default })
	if i < 0 {
		return Zone{Name: f.Default}, false
	}
	return f.Zones[i], ok
}

// parseSource parses an address or a network. ok is false for other sources.
func parseSource(text string) (p netip.Prefix, ok bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	return p, err == nil
}

// newFirewalld sorts the zones by name, as firewalld does.
func newFirewalld(standard string, zones map[string]Zone) *Firewalld {
	f := &Firewalld{Default: standard}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		f.Zones = append(f.Zones, zones[name])
	}
	return f
}
