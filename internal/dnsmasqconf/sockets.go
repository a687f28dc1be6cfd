package dnsmasqconf

import (
	"fmt"
	"net/netip"
	"path"
	"slices"

	"github.com/node-dns/node-dns/internal/netstate"
)

// A Bound is a host address at which the files make dnsmasq listen.
type Bound struct {
	Addr   netip.Addr
	Source string // the option and its place, such as "listen-address FILE:LINE"
}

// Bound returns the addresses of listen-address, and the host's addresses on links that interface
// names and except-interface does not. It may return duplicates and loopback. None means that the
// files do not restrict it: dnsmasq then listens on every address except those of except-interface
// (IsExcepted).
func (c Config) Bound(host []netstate.Addr) []Bound {
	var all []Bound
	for _, addr := range c.Listen {
		all = append(all, Bound{addr, "listen-address " + c.Sources["listen-address"].String()})
	}
	for _, addr := range host {
		if addr.Up && !addr.Tentative && matchesAny(c.Interfaces, addr.Interface) && !c.IsExcepted(addr.Interface) {
			all = append(all, Bound{addr.Addr, "interface " + c.Sources["interface"].String()})
		}
	}
	return all
}

// IsExcepted reports whether except-interface names a link.
func (c Config) IsExcepted(link string) bool { return matchesAny(c.Except, link) }

// matchesAny reports whether a pattern matches link. A final * matches any suffix.
func matchesAny(patterns []string, link string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, link)
		return err == nil && ok
	})
}

// Ports is the range of UDP source ports for queries to upstreams. The zero value means that no
// file sets it.
type Ports struct{ Low, High uint16 }

// The defaults of min-port and max-port. Ports below 1024 belong to services and are never used,
// even with a lower min-port.
const (
	lowestSource  = 1024
	highestSource = 65535
)

// fewestSources adds 10 bits to the 16 bits of a message ID, which an attacker must guess to forge
// a response. dnsmasq allows a single port (CVE-2008-1447).
const fewestSources = 1024

// checkPorts combines min-port and max-port. A min-port of 1024, which OpenShift set on every node,
// has no effect: the kernel never picks a lower port (ip_local_port_range does not overlap the
// ports below ip_unprivileged_port_start, ip-sysctl.rst).
func (l *loader) checkPorts() {
	low := max(l.config.Number("min-port"), lowestSource)
	high := l.config.Number("max-port")
	option := "max-port"
	if high == Unset {
		high, option = highestSource, "min-port"
	}
	switch {
	case low == lowestSource && high == highestSource:
	case high-low+1 < fewestSources:
		place := l.config.Sources[option]
		l.at = position{place.File, place.Line, 1}
		l.fault(option, fmt.Sprintf("at least %d source ports, because fewer make responses easy to forge", fewestSources), fmt.Sprintf("%d to %d", low, high))
	default:
		l.config.Ports = Ports{uint16(low), uint16(high)}
	}
}
