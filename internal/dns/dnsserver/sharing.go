package dnsserver

import (
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// termsOf returns the terms at one address. They can differ: while port 53 of one address changed
// hands, a dnsmasq that kept another address once lost its UDP queries to us.
func (s *Server) termsOf(at netip.AddrPort) Terms {
	if s.terms != Gone && len(s.termsAt) > 0 && !slices.Contains(s.termsAt, at) {
		return Alone
	}
	return s.terms
}

// settle applies the terms to the UDP sockets that stay and to those that go.
func (s *Server) settle(next, gone []*binding) {
	for _, b := range next {
		for _, u := range udpOf([]*binding{b}) {
			_ = u.file.Control(func(fd uintptr) { setReuse(fd, s.termsOf(b.want) != Alone) })
		}
	}
	if s.terms != Gone {
		return
	}
	for _, u := range udpOf(gone) {
		u.stopReceiving()
	}
}

// udpOf returns the UDP sockets of the bindings.
func udpOf(bindings []*binding) (all udpSockets) {
	for _, b := range bindings {
		if of, ok := b.socket.(udpSockets); ok {
			all = append(all, of...)
		}
	}
	return all
}

// setReuse sets SO_REUSEADDR, which cannot fail on a UDP socket.
func setReuse(fd uintptr, on bool) {
	value := 0
	if on {
		value = 1
	}
	_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, value)
}

// reuseBeforeBind is a net.ListenConfig.Control function for a socket that shares or takes over its
// address.
func reuseBeforeBind(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { setReuse(fd, true) })
}

// emptyPatience is the timeout for reading what a socket has already received. Reading takes
// microseconds.
const emptyPatience = 200 * time.Millisecond

// stopReceiving makes the kernel deliver new queries to the other program, and returns when all
// earlier ones have been read. It connects the socket to itself: a connected UDP socket receives
// only from its peer.
func (u *udpSocket) stopReceiving() {
	connected := false
	_ = u.file.Control(func(fd uintptr) {
		self, err := unix.Getsockname(int(fd))
		connected = err == nil && unix.Connect(int(fd), self) == nil
	})
	for deadline := time.Now().Add(emptyPatience); connected && time.Now().Before(deadline); {
		unread := 0
		_ = u.file.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		if unread == 0 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}
