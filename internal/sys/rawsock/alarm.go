package rawsock

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Alarm is a timer that one goroutine waits for. It is a timerfd_create(2), whose expiry wakes one
// thread. A timer of Go's runtime wakes several threads of an idle process, among them the
// scheduler's own, and again when it is set.
type Alarm struct {
	file *os.File
	raw  syscall.RawConn
}

// NewAlarm returns an Alarm that is not set.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &Alarm{file: os.NewFile(uintptr(fd), "alarm")}
	if a.raw, err = a.file.SyscallConn(); err != nil {
		a.file.Close()
		return nil, err
	}
	return a, nil
}

// Set replaces the time until the expiry. 0 disables the Alarm.
func (a *Alarm) Set(after time.Duration) {
	setting := unix.ItimerSpec{Value: unix.NsecToTimespec(after.Nanoseconds())}
	_ = a.raw.Control(func(fd uintptr) { // fails only when closed
		unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&setting)), 0, 0, 0)
	})
}

// Wait returns true at the expiry, and false when the Alarm is closed. An expiry ends one Wait.
func (a *Alarm) Wait() bool { return a.raw.Read(hasExpired) == nil }

func hasExpired(fd uintptr) bool {
	var times [8]byte
	_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&times)), uintptr(len(times)))
	return errno == 0
}

// Close closes the Alarm and ends Wait.
func (a *Alarm) Close() { _ = a.file.Close() }
