package rawsock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions below neither block nor tell the scheduler of their system calls. A system call
// that it knows of wakes its own thread, which is most of what an idle process does.

// Readable returns for each file whether poll(2) reports it as readable.
func Readable(fds []int) []bool {
	poll, readable := make([]unix.PollFd, len(fds)), make([]bool, len(fds))
	for i, fd := range fds {
		poll[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	if len(poll) == 0 {
		return nil
	}
	var now unix.Timespec
	// An error leaves Revents as it is.
	unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(poll))), uintptr(len(poll)), uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	for i := range poll {
		readable[i] = poll[i].Revents&unix.POLLIN != 0
	}
	return readable
}

// SendUnix sends a datagram to a Unix socket if that has room, and reports whether it did. An
// address that begins with @ is abstract (unix(7)).
func SendUnix(address, message string) bool {
	name := unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	if address == "" || len(address) >= len(name.Path) {
		return false
	}
	for i, c := range []byte(address) {
		name.Path[i] = int8(c)
	}
	size := unsafe.Offsetof(name.Path) + uintptr(len(address))
	if address[0] == '@' {
		name.Path[0] = 0
	} else {
		size++ // the final zero
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return false
	}
	_, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.StringData(message))), uintptr(len(message)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&name)), size)
	unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return errno == 0
}
