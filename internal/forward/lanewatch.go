package forward

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/busy"
)

// newLane begins to watch. It returns nil where the kernel has no epoll(7) to give.
func newLane(f *Forward) *lane {
	epoll, err := busy.NewEpoll()
	if err != nil {
		return nil
	}
	n := &lane{f: f, byKey: map[string]*asking{}}
	n.poll = poll{epoll: epoll, buffer: make([]byte, 1<<16)}
	if n.bell, err = busy.NewBell(epoll); err != nil {
		unix.Close(epoll)
		return nil
	}
	f.work.Go(n.watch)
	return n
}

// poll is what a lane's watcher reads with.
type poll struct {
	epoll  int
	events [64]unix.EpollEvent
	buffer []byte
}

// watch takes responses until the lane is closed.
func (n *lane) watch() {
	for !n.closing.Load() {
		n.wakeInTime()
		if n.bell.Wait() == nil { // else the oldest question is overdue
			n.takeEvents(0)
		}
		n.overdue(time.Now())
		if n.pace.IsBusy() && n.f.threads.Enter() {
			n.takeBlocked()
			n.f.threads.Leave()
		}
	}
	n.end()
}

// wakeInTime has the watcher look at the clock when the oldest question is overdue.
func (n *lane) wakeInTime() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wakeLocked()
}

func (n *lane) wakeLocked() {
	var at time.Time
	if n.oldest != nil {
		at = n.oldest.begun.Add(n.f.tryTimeout)
	}
	n.bell.SetDeadline(at)
}

// takeBlocked takes what comes until the lane is idle, or closed.
func (n *lane) takeBlocked() {
	n.bell.Mute()
	defer n.bell.Unmute()
	for n.pace.IsBusy() && !n.closing.Load() {
		n.takeEvents(busy.Timeout)
		n.overdue(time.Now())
	}
}

// takeEvents waits for events, and handles them.
func (n *lane) takeEvents(wait time.Duration) int {
	count, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(n.poll.epoll), uintptr(unsafe.Pointer(&n.poll.events)),
		uintptr(len(n.poll.events)), uintptr(wait.Milliseconds()), 0, 0)
	if errno != 0 {
		count = 0
	}
	for _, event := range n.poll.events[:count] {
		n.mu.Lock()
		a := n.slots[event.Fd]
		n.mu.Unlock()
		if a != nil {
			n.receive(a)
		}
	}
	n.pace.Add(int(count), time.Now())
	return int(count)
}

// receive takes what has come for one question.
func (n *lane) receive(a *asking) {
	for {
		buffer := n.poll.buffer
		size, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(a.socket.fd), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return
		default:
			n.failed(a, os.NewSyscallError("read", errno))
			return
		}
		if int(size) >= max(receiveSize, int(n.f.udp.Load().Size)+1) {
			buffer[2] |= bitTC // more than was asked for
		}
		m, err := decode(a.query, buffer[:size])
		if err == nil {
			n.answered(a, m)
			return
		}
		n.f.counts.ignored.Add(1)
	}
}
