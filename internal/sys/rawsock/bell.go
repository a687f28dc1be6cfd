package rawsock

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bell rings in Go's netpoller when a file can be read, while it is not muted: who waits for the file in the kernel does not
// want the netpoller to wake for it as well. Between them stands an epoll(7) of its own, as what the netpoller watches it
// watches until it is closed. Wait is for one goroutine; the other methods may be called beside it.
type Bell struct {
	fd, epoll int
	file      *os.File // of epoll
	raw       syscall.RawConn
	look      func(uintptr) bool // looks, made once
}

// NewBell returns a Bell for a file, which it does not own. Close it before that.
func NewBell(fd int) (*Bell, error) {
	epoll, err := NewEpoll()
	if err != nil {
		return nil, err
	}
	b := &Bell{fd: fd, epoll: epoll, file: os.NewFile(uintptr(epoll), "bell")}
	b.look = b.rings
	if b.raw, err = b.file.SyscallConn(); err == nil {
		err = b.control(unix.EPOLL_CTL_ADD)
	}
	if err != nil {
		b.file.Close()
		return nil, err
	}
	return b, nil
}

// NewEpoll returns a new epoll(7).
func NewEpoll() (fd int, err error) {
	if fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return -1, os.NewSyscallError("epoll_create1", err)
	}
	return fd, unix.SetNonblock(fd, true) // else os.File does not let the netpoller watch it
}

// Wait waits until the file can be read. It ends with an error at the deadline, and when the Bell is closed.
func (b *Bell) Wait() error { return b.raw.Read(b.look) }

func (b *Bell) rings(uintptr) bool {
	var event unix.EpollEvent
	n, _, _ := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(b.epoll), uintptr(unsafe.Pointer(&event)), 1, 0, 0, 0)
	return n == 1
}

// SetDeadline is when Wait ends; the zero time: never.
func (b *Bell) SetDeadline(t time.Time) { _ = b.file.SetReadDeadline(t) } // fails on a closed one only

// Mute has it ring no more, until Unmute.
func (b *Bell) Mute()   { _ = b.control(unix.EPOLL_CTL_DEL) }
func (b *Bell) Unmute() { _ = b.control(unix.EPOLL_CTL_ADD) }

func (b *Bell) control(what int) error {
	var failed error
	event := unix.EpollEvent{Events: unix.EPOLLIN}
	err := b.raw.Control(func(uintptr) { failed = unix.EpollCtl(b.epoll, what, b.fd, &event) })
	if err != nil {
		return err
	}
	return os.NewSyscallError("epoll_ctl", failed)
}

// Close ends Wait.
func (b *Bell) Close() { _ = b.file.Close() }
