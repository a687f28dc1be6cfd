package rawsock

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bell signals through Go's netpoller that a file is readable, unless it is muted: a goroutine that
// waits for the file in the kernel does not want the netpoller to wake up for it too. It uses an
// epoll(7) instance of its own in between, because the netpoller watches a file until it is closed.
// Wait is for one goroutine; the other methods may be called concurrently.
type Bell struct {
	fd, epoll int
	file      *os.File // for epoll
	raw       syscall.RawConn
	look      func(uintptr) bool // rings as a function value, created once
}

// NewBell returns a Bell for a file, which it does not own. Close the Bell before the file.
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

// NewEpoll returns a new epoll(7) instance.
func NewEpoll() (fd int, err error) {
	if fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return -1, os.NewSyscallError("epoll_create1", err)
	}
	return fd, unix.SetNonblock(fd, true) // required for os.File to use the netpoller
}

// Wait waits until the file is readable. It returns an error at the deadline and when the Bell is
// closed.
func (b *Bell) Wait() error { return b.raw.Read(b.look) }

func (b *Bell) rings(uintptr) bool {
	var event unix.EpollEvent
	n, _, _ := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(b.epoll), uintptr(unsafe.Pointer(&event)), 1, 0, 0, 0)
	return n == 1
}

// SetDeadline sets the time at which Wait ends; the zero time means never.
func (b *Bell) SetDeadline(t time.Time) { _ = b.file.SetReadDeadline(t) } // fails only when closed

// Mute stops the Bell from ringing until Unmute.
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

// Close closes the Bell and ends Wait.
func (b *Bell) Close() { _ = b.file.Close() }
