package forward

import (
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sockaddr"
)

// watchSocket has the watcher told of what comes, once of each: the kernel need not look again whether there is more.
func (n *lane) watchSocket(fd, slot int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(slot)} // Fd is ours to choose
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(n.poll.epoll), unix.EPOLL_CTL_ADD, uintptr(fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	return callError("epoll_ctl", errno)
}

func openSocket(is4 bool) (fd int, err error) {
	domain := uintptr(unix.AF_INET6)
	if is4 {
		domain = unix.AF_INET
	}
	got, _, errno := unix.RawSyscall(unix.SYS_SOCKET, domain, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return -1, os.NewSyscallError("socket", errno)
	}
	return int(got), nil
}

// bindDrawn binds to one of udp's ports.
func bindDrawn(fd int, to netip.Addr, udp UDP) error {
	any := netip.IPv6Unspecified()
	if to.Is4() {
		any = netip.IPv4Unspecified()
	}
	var errno syscall.Errno
	for range maxDraws {
		if errno = callWithName(unix.SYS_BIND, fd, netip.AddrPortFrom(any, udp.draw())); !isTaken(errno) {
			break
		}
	}
	return callError("bind", errno)
}

// connect has the kernel refuse what anybody else sends: a socket that takes it costs less, by about a tenth of a miss, but tells
// whoever sends to every port which of them is open, and leaves only the ID to be guessed (SAD DNS, CVE-2020-25705; unbound's
// udp-connect).
func connect(fd int, to netip.AddrPort) error {
	return callError("connect", callWithName(unix.SYS_CONNECT, fd, to))
}

// disconnect has the kernel let go of the port: udp(7).
func disconnect(fd int) error {
	name := unix.RawSockaddrInet4{Family: unix.AF_UNSPEC}
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&name)), unsafe.Sizeof(name))
	return callError("connect", errno)
}

// callWithName calls bind(2) or connect(2).
func callWithName(call uintptr, fd int, at netip.AddrPort) syscall.Errno {
	var name unix.RawSockaddrInet6
	size := sockaddr.Set(&name, at)
	_, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&name)), uintptr(size))
	return errno
}

func receiveFrom(fd int, buffer []byte) (size int, errno syscall.Errno) {
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buffer))), uintptr(len(buffer)), unix.MSG_DONTWAIT, 0, 0)
	return int(got), errno
}

func sendOn(fd int, query []byte) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(query))), uintptr(len(query)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return callError("write", errno)
}

func closeSocket(fd int) { unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func callError(call string, errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return os.NewSyscallError(call, errno)
}
