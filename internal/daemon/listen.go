package daemon

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/policy"
)

// listen binds what s wants, and logs what became of it. What is bound already stays as it is.
func (d *Daemon) listen(s *policy.Policy) error {
	before := listenerStatus(d.server.Listeners(), nil)
	terms, at, _ := dnsserver.ReadTerms(d.paths.terms)
	d.server.SetTerms(terms, at...)
	err := d.server.Listen(s.Listen)
	d.logListeners(before, listenerStatus(d.server.Listeners(), s.Spare))
	return err
}

// listening are the addresses that are bound.
func (d *Daemon) listening() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, l := range d.server.Listeners() {
		if l.Err == "" && !slices.Contains(addrs, l.Addr) {
			addrs = append(addrs, l.Addr)
		}
	}
	return addrs
}

// listenerStatus shows UDP and TCP of one address as one. spare are the addresses that another program may have.
func listenerStatus(listeners []dnsserver.Listener, spare []netip.AddrPort) []control.Listener {
	all := []control.Listener{}
	for _, l := range listeners {
		address := l.Addr.String()
		i := slices.IndexFunc(all, func(have control.Listener) bool { return have.Address == address })
		if i < 0 {
			all = append(all, control.Listener{Address: address})
			i = len(all) - 1
		}
		if l.Err != "" {
			all[i].Error = l.Err
			all[i].Spare = l.InUse && slices.Contains(spare, l.Addr)
			continue
		}
		all[i].UDP = all[i].UDP || l.Proto == dnsserver.UDP
		all[i].TCP = all[i].TCP || l.Proto == dnsserver.TCP
	}
	return all
}

// listenerChange is how two states of the listeners differ.
type listenerChange struct {
	opened, closed []string            // addresses that are bound now, or not any more
	spared         []string            // addresses that another program has, and may have
	failed         map[string][]string // other addresses that are not bound, by a reason that is new for them
}

func changeOfListeners(before, after []control.Listener) listenerChange {
	was := map[string]control.Listener{}
	for _, l := range before {
		was[l.Address] = l
	}
	change := listenerChange{failed: map[string][]string{}}
	is := map[string]bool{}
	for _, l := range after {
		old, known := was[l.Address]
		is[l.Address] = l.Error == ""
		switch {
		case l.Spare && l.Error != old.Error:
			change.spared = append(change.spared, l.Address)
		case l.IsFailed() && l.Error != old.Error:
			change.failed[l.Error] = append(change.failed[l.Error], l.Address)
		case l.Error == "" && (!known || old.Error != ""):
			change.opened = append(change.opened, l.Address)
		}
	}
	for _, l := range before {
		if l.Error == "" && !is[l.Address] {
			change.closed = append(change.closed, l.Address)
		}
	}
	return change
}
