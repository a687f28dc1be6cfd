package view

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// ListenerStatus combines UDP and TCP of one address. spare are the addresses that another program
// may have.
func ListenerStatus(listeners []dnsserver.Listener, spare []netip.AddrPort) []control.Listener {
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

// Listening returns the bound addresses.
func (v *View) Listening() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, l := range v.server.Listeners() {
		if l.Err == "" && !slices.Contains(addrs, l.Addr) {
			addrs = append(addrs, l.Addr)
		}
	}
	return addrs
}
