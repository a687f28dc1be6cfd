package rawsock

import (
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenUDP returns a UDP socket without an address.
func OpenUDP(is4 bool) (fd int, err error) {
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

// Bind binds a socket to an address.
func Bind(fd int, at netip.AddrPort) syscall.Errno { return callWithName(unix.SYS_BIND, fd, at) }

// Connect makes the kernel reject packets from other sources.
func Connect(fd int, to netip.AddrPort) error {
	return CallError("connect", callWithName(unix.SYS_CONNECT, fd, to))
}

// Disconnect makes the kernel release the port; see udp(7).
func Disconnect(fd int) error {
	name := unix.RawSockaddrInet4{Family: unix.AF_UNSPEC}
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&name)), unsafe.Sizeof(name))
	return CallError("connect", errno)
}

// callWithName calls bind(2) or connect(2).
func callWithName(call uintptr, fd int, at netip.AddrPort) syscall.Errno {
	var name unix.RawSockaddrInet6
	size := SetAddr(&name, at)
	_, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&name)), uintptr(size))
	return errno
}

// Receive receives one datagram if there is one.
func Receive(fd int, buffer []byte) (size int, errno syscall.Errno) {
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buffer))), uintptr(len(buffer)), unix.MSG_DONTWAIT, 0, 0)
	return int(got), errno
}

// Send sends a datagram on a connected socket. It does not block.
func Send(fd int, datagram []byte) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(datagram))), uintptr(len(datagram)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return CallError("write", errno)
}

// Close closes a socket.
func Close(fd int) { unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// CallError returns the error of a system call, or nil for 0.
func CallError(call string, errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return os.NewSyscallError(call, errno)
}
