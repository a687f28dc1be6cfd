package dnsserver

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// udpFile is a UDP socket outside Go's netpoller. Its methods may be called concurrently.
type udpFile struct {
	mu     sync.RWMutex // held for reading while fd is in use
	fd     int
	closed bool
}

// newUDPFile takes over the socket of c.
func newUDPFile(c *net.UDPConn) (*udpFile, error) {
	defer c.Close() // removes it from the netpoller
	fd, err := Dup(c)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, false); err != nil { // callers that must not block use MSG_DONTWAIT
		unix.Close(fd)
		return nil, err
	}
	return &udpFile{fd: fd}, nil
}

// Dup duplicates the descriptor of a socket, outside Go's netpoller. Unlike File.Fd, it does not
// make the socket blocking.
func Dup(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	if err := raw.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return -1, err
	}
	return fd, os.NewSyscallError("fcntl", failed)
}

// Control calls use with the descriptor, which is valid until use returns.
func (f *udpFile) Control(use func(fd uintptr)) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return net.ErrClosed
	}
	use(uintptr(f.fd))
	return nil
}

// isInUse reports whether a Control or send has not returned.
func (f *udpFile) isInUse() bool {
	if f.mu.TryLock() {
		f.mu.Unlock()
		return false
	}
	return true
}

// close waits until the descriptor is no longer in use.
func (f *udpFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		unix.Close(f.fd)
	}
}

// send sends one datagram. If the device queue is full, it waits.
func (f *udpFile) send(message []byte, to netip.AddrPort) error {
	var name unix.RawSockaddrInet6
	size := rawsock.SetAddr(&name, to)
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return net.ErrClosed
	}
	for patient := true; ; {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(f.fd), uintptr(unsafe.Pointer(unsafe.SliceData(message))), uintptr(len(message)),
			unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&name)), uintptr(size))
		switch {
		case errno == 0:
			return nil
		case errno == unix.EINTR:
		case errno == unix.EAGAIN && patient:
			patient = waitWritable(uintptr(f.fd))
		default:
			return os.NewSyscallError("sendto", errno)
		}
	}
}

// waitWritable waits until the device has sent something, which takes microseconds.
func waitWritable(fd uintptr) bool {
	const milliseconds = 10
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, milliseconds)
	return n > 0 || errors.Is(err, unix.EINTR)
}
