package dnsmasqconf

import (
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
