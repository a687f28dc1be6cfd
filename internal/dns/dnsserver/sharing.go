package dnsserver

import (
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// termsOf are the terms at one address. While port 53 of one address changed hands, a dnsmasq that has another one, and
// keeps it, once lost its UDP queries to us.
func (s *Server) termsOf(at netip.AddrPort) Terms {
	if s.terms != Gone && len(s.termsAt) > 0 && !slices.Contains(s.termsAt, at) {
		return Alone
	}
	return s.terms
}

// settle makes the UDP sockets that stay, or go, follow the terms.
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
		u.turnAway()
	}
}

// udpOf are the UDP sockets of the bindings.
func udpOf(bindings []*binding) (all udpSockets) {
	for _, b := range bindings {
		if of, ok := b.socket.(udpSockets); ok {
			all = append(all, of...)
		}
	}
	return all
}

// setReuse cannot fail on a UDP socket.
func setReuse(fd uintptr, on bool) {
	value := 0
	if on {
		value = 1
	}
	_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, value)
}

// reuseBeforeBind is net.ListenConfig.Control for a socket that is to share, or take, its address.
func reuseBeforeBind(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { setReuse(fd, true) })
}

// emptyPatience is how long what a socket has received by now may take to be read. It is done in microseconds.
const emptyPatience = 200 * time.Millisecond

// turnAway has the kernel give what comes from now on to others, and returns when all that came before has been read. A
// connected UDP socket gets what its peer sends and nothing else; this one's is itself.
func (u *udpSocket) turnAway() {
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
