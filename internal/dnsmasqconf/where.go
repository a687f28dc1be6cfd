package dnsmasqconf

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Where returns the first place that sets a record for a name, or an address for its domain, of
// which the longest counts. It searches everything, so it is only for explanations to people. ok is
// false if there is none.
func (c Config) Where(name dnsname.Name) (place Place, ok bool) {
	for _, h := range c.Hosts {
		back := func(addr netip.Addr) bool { return dnsname.Reverse(addr) == name }
		if slices.Contains(h.Names, name) || slices.ContainsFunc(h.Addrs, back) {
			return h.Place, true
		}
	}
	for _, r := range c.records() {
		if r.name == name {
			return r.place, true
		}
	}
	for zone := name; !zone.IsZero(); zone = zone.Parent() {
		for _, a := range c.Addresses {
			if a.Domain == zone && !a.Plain || a.Plain && zone.IsRoot() && name.Labels() == 1 {
				return a.Place, true
			}
		}
	}
	return Place{}, false
}

// named is a name with a record.
type named struct {
	name  dnsname.Name
	place Place
}

func (c Config) records() (all []named) {
	for _, r := range c.CNAMEs {
		all = append(all, named{r.Alias, r.Place})
	}
	for _, r := range c.Texts {
		all = append(all, named{r.Name, r.Place})
	}
	for _, r := range c.SRVs {
		all = append(all, named{r.Name, r.Place})
	}
	for _, r := range c.PTRs {
		all = append(all, named{r.Name, r.Place})
	}
	for _, r := range c.MXs {
		all = append(all, named{r.Name, r.Place})
	}
	for _, r := range c.Records {
		all = append(all, named{r.Name, r.Place})
	}
	return all
}
