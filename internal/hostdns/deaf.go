package hostdns

import (
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/upstream"
)

// lookForDeaf finds loopback addresses that are configured as nameservers but where nothing listens
// on UDP. It sends a packet only if an address was not captured before. A nameserver at a captured
// address may just be restarting.
func (s *State) lookForDeaf() {
	known := lastGood(s).Set.Servers
	for _, c := range candidates(s) {
		if c.Origin == upstream.LastGood {
			continue
		}
		for _, server := range c.Set.Servers {
			if server.Plain() && server.Addr.Addr().IsLoopback() && !slices.Contains(known, server) && !listens(server.Addr) {
				s.Deaf = append(s.Deaf, server.Addr)
			}
		}
	}
}

// listens reports whether a socket receives UDP packets at a loopback address; it returns true if
// that cannot be determined. It sends one byte, which a nameserver drops. On loopback the kernel
// reports a missing socket before write(2) returns (udp(7), ECONNREFUSED). Reading /proc/net/udp
// instead would need the kernel's byte order, which an emulated program does not share.
func listens(at netip.AddrPort) bool {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return true
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	var refusal int
	if _, err := conn.Write([]byte{0}); err == nil {
		raw.Control(func(fd uintptr) { refusal, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR) })
	}
	return unix.Errno(refusal) != unix.ECONNREFUSED
}
