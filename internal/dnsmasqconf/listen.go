package dnsmasqconf

import (
	"net/netip"
	"path"
	"slices"

	"github.com/node-dns/node-dns/internal/netstate"
)

// A Bound is an address of the host at which the files have dnsmasq listen.
type Bound struct {
	Addr   netip.Addr
	Source string // the option and where it stands, as "listen-address FILE:LINE"
}

// Bound returns the addresses of listen-address, and those of host on the links that interface names and except-interface does
// not. It may name one twice, and loopback. None: the files say nothing of it, and dnsmasq listens at every address but those of
// except-interface (IsExcepted).
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

// matchesAny reports whether a link is named; a final * stands for any end.
func matchesAny(patterns []string, link string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, link)
		return err == nil && ok
	})
}
