package hostdns

import (
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/upstream"
)

// lookForDeaf finds the loopback addresses that somebody names as nameservers and where nothing listens over UDP. It sends
// something only where such an address is named that was not captured before: a captured one may only be restarting.
func (s *State) lookForDeaf() {
	known := lastGood(*s).Set.Servers
	for _, c := range candidates(*s) {
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

// listens reports whether a socket gets what is sent to a loopback address over UDP, or whether that cannot be found out. It sends
// one octet, which a nameserver drops: on loopback the kernel refuses it before write(2) returns (udp(7), ECONNREFUSED). The
// kernel's table, /proc/net/udp, would need its byte order, which is not the program's under an emulator.
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
