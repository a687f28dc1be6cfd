package netstate

import "net/netip"

// state decides; everything it needs of the kernel is in f and in kernel.
func (f facts) state(kernel ask) State {
	var s State
	for _, d := range f.onLink {
		s.OnLink = append(s.OnLink, OnLink{Network: d.network, Interface: f.links[d.index].name, Index: d.index})
	}
	for _, a := range f.addrs {
		l := f.links[a.index]
		s.Addrs = append(s.Addrs, Addr{
			Addr:       zoned(a.ip, l.name),
			Interface:  l.name,
			Index:      a.index,
			Bits:       a.bits,
			Up:         l.up,
			Tentative:  a.tentative || a.dadFailed,
			Deprecated: a.deprecated,
		})
	}
	s.Default4 = f.defaultRoute(inet, kernel)
	s.Default6 = f.defaultRoute(inet6, kernel)
	return s
}

func (f facts) defaultRoute(fam family, kernel ask) *DefaultRoute {
	c, ok := f.chooseRoute(fam)
	if !ok {
		return nil
	}
	name := f.links[c.index].name
	return &DefaultRoute{
		Interface: name,
		Index:     c.index,
		Gateway:   zoned(c.gateway, name),
		Source:    f.sourceFor(fam, c, kernel),
		Metric:    int(c.metric),
		Table:     int(c.table),
	}
}

func zoned(a netip.Addr, name string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(name)
	}
	return a
}
