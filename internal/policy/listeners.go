package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// addListeners decides where node-dns listens, who may query there, and how many queries may wait
// for upstreams given the sockets that this takes.
func (p *Policy) addListeners(in Inputs, place nodeconfig.Placement) {
	p.Listen, p.Spare, p.NodeIP = wantedListeners(in.Listen, place, in.Net.Addrs), place.Spare, place.Nameserver
	p.addFileListeners(in)
	config := in.Config
	if len(in.Listen) > 0 {
		config.Resolver.Listen = nil // the command line overrides all other addresses
	}
	p.Access = newAccess(config, p.Listen, in.Net)
	p.Listen = append(p.Listen, p.Access.listen...)
	if room := roomToListen(in.MaxFiles); room < len(p.Listen) {
		p.Problems = append(p.Problems, fmt.Sprintf("node-dns listens on the first %d of %d addresses, not on %s and those after it "+
			"(limits: %d addresses, and LimitNOFILE=)", room, len(p.Listen), p.Listen[room], mostListeners))
		p.Listen = p.Listen[:room]
	}
	p.ForwardMax = p.Settings.forwardMax
	if room := roomToForward(in.MaxFiles, len(p.Listen)); room < p.ForwardMax {
		p.note("only %d queries may wait for upstreams instead of dnsForwardMax %d, because the process may open only %d files "+
			"(LimitNOFILE= of systemd.exec(5), ulimit -n)", room, p.ForwardMax, in.MaxFiles)
		p.ForwardMax = room
	}
}

// addFileListeners adds the addresses of listen-address and interface without those of
// except-interface, because dnsmasq would have listened there. The address in /etc/resolv.conf
// always stays. Loopback is left out: RHEL's dnsmasq.conf has interface=lo by default, and
// OpenShift's own nameserver used loopback. port= moves all of them to another port.
func (p *Policy) addFileListeners(in Inputs) {
	files := in.Dnsmasq
	port := uint16(max(files.Number("port"), 0))
	if len(files.Listen)+len(files.Interfaces) == 0 && port == 0 || len(in.Listen) > 0 {
		return
	}
	if isSet(in.Config, "listen") {
		p.note("listen in node-dns.yaml overrides port, listen-address and interface in dnsmasq's files")
		return
	}
	if port = cmp.Or(port, nameserver.Port); port != nameserver.Port {
		p.note("port=%d (%s) makes node-dns listen on that port; /etc/resolv.conf cannot name a port, so it names the site's nameservers", port, files.Sources["port"])
		p.Listen = onPort(p.Listen, port)
	}
	for _, bound := range files.Bound(in.Net.Addrs) {
		p.addListener(netip.AddrPortFrom(bound.Addr, port), bound.Source)
	}
}

// onPort moves listeners to another port, except those on loopback, which replace OpenShift's own
// nameserver.
func onPort(listen []netip.AddrPort, port uint16) []netip.AddrPort {
	moved := slices.Clone(listen)
	for i, at := range moved {
		if !at.Addr().IsLoopback() {
			moved[i] = netip.AddrPortFrom(at.Addr(), port)
		}
	}
	return moved
}

func (p *Policy) addListener(at netip.AddrPort, source string) {
	switch {
	case slices.Contains(p.Listen, at):
	case at.Addr().IsLoopback():
		p.note("node-dns does not listen on %s (%s); to listen there, set listen in node-dns.yaml", at.Addr(), source)
	default:
		p.Listen = append(p.Listen, at)
	}
}

// Listeners returns the addresses at which a daemon with this configuration listens on a host with
// these addresses. There are none if the host has no address yet, or if an error leaves the cluster
// domain unknown.
func Listeners(config nodeconfig.Config, files dnsmasqconf.Config, net netstate.State) []netip.AddrPort {
	return New(Inputs{Config: config, Dnsmasq: files, Net: net}).Listen
}

// wantedListeners returns the addresses of the command line, else those of the placement. `listen:
// all` adds every local address except those of lo, like dnsmasq's bind-dynamic with
// except-interface=lo. The placement alone decides about intercepted addresses.
func wantedListeners(flags []netip.AddrPort, place nodeconfig.Placement, addrs []netstate.Addr) []netip.AddrPort {
	if len(flags) > 0 {
		return flags
	}
	listen := slices.Clone(place.Listen)
	if !place.All {
		return listen
	}
	for _, addr := range addrs {
		at := netip.AddrPortFrom(addr.Addr, 53)
		if addr.Interface != "lo" && addr.Up && !addr.Tentative && !slices.Contains(listen, at) && !slices.Contains(place.Intercept, addr.Addr) {
			listen = append(listen, at)
		}
	}
	return listen
}
