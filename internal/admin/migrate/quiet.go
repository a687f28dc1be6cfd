package migrate

import (
	"net"
	"net/netip"
	"slices"
)

// isQuiet reports whether a nameserver has answered all that it was asked over UDP: nothing is unread at port 53, and it has
// none of the sockets in which it waits for its upstreams (dnsmasq closes each with the answer; one of a fixed query-port
// stays, and then it is never quiet).
func isQuiet(unit string) (bool, error) {
	held, err := holders("/proc")
	if err != nil {
		return false, err
	}
	mine := map[uint64]bool{}
	for _, h := range held {
		if h.Unit == unit {
			for _, inode := range socketsOf("/proc", h.PID) {
				mine[inode] = true
			}
		}
	}
	sockets, err := readSockets("/proc")
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(sockets, func(s socket) bool {
		return s.proto == "udp" && mine[s.inode] && (s.local.Port() != portDNS || s.unread > 0)
	}), nil
}

// hasNoConnections reports whether nobody is connected to these addresses.
func hasNoConnections(at []netip.AddrPort) (bool, error) {
	sockets, err := readSockets("/proc")
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(sockets, func(s socket) bool {
		return s.proto == "tcp" && (s.state == tcpEstablished || s.state == tcpCloseWait) && slices.ContainsFunc(at, func(a netip.AddrPort) bool { return isAt(s.local, a) })
	}), nil
}

// listensTCP reports whether a unit listens for TCP at one of these addresses.
func listensTCP(unit string, at []netip.AddrPort) (bool, error) {
	held, err := holders("/proc")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(held, func(h Holder) bool {
		return h.Unit == unit && h.Proto == "tcp" && slices.ContainsFunc(at, h.Covers)
	}), nil
}

// holdsAll reports whether a unit has UDP and TCP of all these addresses. Of none of them it has when it has any port 53.
func holdsAll(unit string, at []netip.AddrPort) bool {
	held, err := holders("/proc")
	if err != nil {
		return false
	}
	has := func(proto string, covers func(Holder) bool) bool {
		return slices.ContainsFunc(held, func(h Holder) bool { return h.Unit == unit && h.Proto == proto && covers(h) })
	}
	for _, proto := range []string{"udp", "tcp"} {
		if !has(proto, func(h Holder) bool { return h.Addr.Port() == portDNS }) {
			return false
		}
		for _, a := range at {
			if !has(proto, func(h Holder) bool { return h.Covers(a) }) {
				return false
			}
		}
	}
	return true
}

// stillLocal are those of the addresses that this host has: a link may be gone since the plan was made, and with it what a step waits for.
func stillLocal(at []netip.AddrPort) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(at), func(a netip.AddrPort) bool { return !isLocal(a.Addr()) })
}

// isLocal reports whether an address is this host's.
func isLocal(addr netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == addr.Unmap().WithZone("")
	})
}
