package forward

import (
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// laneSocket is a socket that one question is asked on at a time, each from a port that is drawn anew: to disconnect a UDP
// socket that was bound by connecting it gives its port back (connect(2), AF_UNSPEC), which costs a third of what a new
// socket does. What comes in late on the old port reaches nobody.
type laneSocket struct {
	fd        int
	slot      uint32
	isWatched bool
	is4       bool
}

// maxIdle is how many sockets of a family a lane keeps for the next questions.
const maxIdle = 256

// idleLocked returns a socket to use again; nil: there is none.
func (n *lane) idleLocked(to netip.Addr) *laneSocket {
	idle := &n.idle[family(to.Is4())]
	last := len(*idle) - 1
	if last < 0 || n.f.udp.Load().hasPorts() {
		return nil
	}
	s := (*idle)[last]
	*idle = (*idle)[:last]
	return s
}

func family(is4 bool) int {
	if is4 {
		return 0
	}
	return 1
}

// releaseLocked keeps the socket for another question, or closes it.
func (n *lane) releaseLocked(s *laneSocket, reusable bool) {
	idle := &n.idle[family(s.is4)]
	if !reusable || n.closed || len(*idle) == maxIdle || n.f.udp.Load().hasPorts() || s.disconnect() != nil {
		n.closeLocked(s)
		return
	}
	*idle = append(*idle, s)
}

func (n *lane) closeLocked(s *laneSocket) {
	s.close()
	n.free = append(n.free, s.slot)
}

// slotLocked returns one that no socket has.
func (n *lane) slotLocked() uint32 {
	if last := len(n.free) - 1; last >= 0 {
		slot := n.free[last]
		n.free = n.free[:last]
		return slot
	}
	n.slots = append(n.slots, nil)
	return uint32(len(n.slots) - 1)
}

// watchSocket has the watcher told of what comes: of a datagram once, as there may be some left that nobody waits for.
func (n *lane) watchSocket(s *laneSocket) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(s.slot)} // Fd is ours to choose
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(n.poll.epoll), unix.EPOLL_CTL_ADD, uintptr(s.fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	s.isWatched = errno == 0
	return errorOf(errno)
}

// openSocket returns a new socket that is connected to a server, from a port that the kernel draws, or from one of udp's.
func openSocket(to netip.AddrPort, udp UDP) (*laneSocket, error) {
	domain := uintptr(unix.AF_INET6)
	if to.Addr().Is4() {
		domain = unix.AF_INET
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, domain, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("socket", errno)
	}
	s := &laneSocket{fd: int(fd), is4: to.Addr().Is4()}
	if udp.hasPorts() {
		errno = bindDrawn(fd, to.Addr(), udp)
	}
	err := errorOf(errno)
	if err == nil {
		err = s.connect(to)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *laneSocket) connect(to netip.AddrPort) error {
	return errorOf(callWithName(unix.SYS_CONNECT, uintptr(s.fd), to))
}

func bindDrawn(fd uintptr, to netip.Addr, udp UDP) (errno syscall.Errno) {
	any := netip.IPv6Unspecified()
	if to.Is4() {
		any = netip.IPv4Unspecified()
	}
	for range maxDraws {
		if errno = callWithName(unix.SYS_BIND, fd, netip.AddrPortFrom(any, udp.draw())); errno != unix.EADDRINUSE {
			break
		}
	}
	return errno
}

// callWithName calls bind(2) or connect(2).
func callWithName(call, fd uintptr, at netip.AddrPort) syscall.Errno {
	port := at.Port()<<8 | at.Port()>>8
	if at.Addr().Is4() {
		name := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: at.Addr().As4()}
		_, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&name)), unsafe.Sizeof(name))
		return errno
	}
	name := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: at.Addr().As16()}
	_, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&name)), unsafe.Sizeof(name))
	return errno
}

func sendOn(fd int, query []byte) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(query))), uintptr(len(query)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return errorOf(errno)
}

func (s *laneSocket) close() { unix.RawSyscall(unix.SYS_CLOSE, uintptr(s.fd), 0, 0) }

// disconnect gives the port back, and forgets the server.
func (s *laneSocket) disconnect() error {
	name := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(s.fd), uintptr(unsafe.Pointer(&name)), unsafe.Sizeof(name))
	return errorOf(errno)
}

func errorOf(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
