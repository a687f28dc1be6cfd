package forward

import (
	"hash/maphash"
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
	n := &lane{f: f, seed: maphash.MakeSeed()}
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
	asked  [64]*asking // whose events those are; nil: nobody's
	buffer []byte
}

// watch takes responses until the lane is closed.
func (n *lane) watch() {
	for !n.closing.Load() {
		n.turn()
	}
	n.end()
}

// wakeInTime has the watcher look at the clock when a question is overdue.
func (n *lane) wakeInTime() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wakeLocked()
}

func (n *lane) wakeLocked() {
	if n.isInside {
		return
	}
	at := n.dueLocked()
	if len(n.faulty) > 0 {
		at = time.Now()
	}
	n.bell.SetDeadline(at)
}

// takeBlocked takes what comes until the lane is idle, or closed.
func (n *lane) takeBlocked() {
	n.setInside(true)
	defer n.setInside(false)
	n.bell.Mute()
	defer n.bell.Unmute()
	for n.pace.IsBusy() && !n.closing.Load() {
		n.takeEvents(min(busy.Timeout, n.f.hedge))
		n.overdue(time.Now())
	}
}

func (n *lane) setInside(isInside bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isInside = isInside
}

// takeEvents waits for events, and handles them.
func (n *lane) takeEvents(wait time.Duration) int {
	count, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(n.poll.epoll), uintptr(unsafe.Pointer(&n.poll.events)),
		uintptr(len(n.poll.events)), uintptr(wait.Milliseconds()), 0, 0)
	if errno != 0 {
		count = 0
	}
	n.now = time.Now()
	for asked := n.askedIn(n.poll.events[:count]); len(asked) > 0; {
		asked = n.receiveAll(asked)
	}
	n.out.Flush()
	n.pace.Add(int(count), n.now)
	return int(count)
}

// askedIn are the questions that events are of. They are held: only the watcher drops what was sent.
func (n *lane) askedIn(events []unix.EpollEvent) []*asking {
	asked := n.poll.asked[:len(events)]
	if len(events) == 0 {
		return asked
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropFaultyLocked()
	for i, event := range events {
		a := n.slots[event.Fd]
		if a != nil && !a.isAsked {
			n.drain(a.socket.fd) // it came too late
			a = nil
		}
		asked[i] = a
	}
	return asked
}

// receive takes what has come for one question, until it has its answer or there is no more: the kernel tells of each once.
func (n *lane) receive(a *asking) {
	for hasFailed, isOver := false, false; !isOver; {
		buffer := n.poll.buffer
		size, errno := receiveFrom(a.socket.fd, buffer)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return
		default:
			if hasFailed {
				return
			}
			hasFailed = true
			n.failed(a, os.NewSyscallError("read", errno))
			continue
		}
		if size >= max(receiveSize, int(n.f.udp.Load().Size)+1) {
			buffer[2] |= bitTC // more than was asked for
		}
		if r, ok := simple(a.query, buffer[:size]); ok {
			if a.isGuarded && a.server.doubts(a.query, hasCase(a.query, buffer), r.Cookie) {
				n.doubted(a)
			} else {
				isOver = n.answeredSimply(a, r)
			}
			continue
		}
		m, err := decode(a.query, buffer[:size])
		if err == nil {
			if a.isGuarded && !m.Truncated && a.server.doubts(a.query, parsedHasCase(a.query, m), cookieIn(m)) {
				n.doubted(a)
			} else {
				isOver = n.answered(a, m)
			}
			continue
		}
		n.f.counts.ignored.Add(1)
		n.spoilt(a, isUnreadable(err))
	}
}

// spoilt is called with what is no response to the question. The right one may come yet; but if this is all that the server
// sends, another is better asked at once. The same one is not over UDP: who forges responses would have two questions to hit.
func (n *lane) spoilt(a *asking, unreadable bool) {
	told := &a.isSpoilt
	if unreadable {
		told = &a.isUnread
	}
	if *told || len(a.route.servers) == 1 && !unreadable {
		return
	}
	*told = true
	n.goOn(a, outcome{attempt: attempt{to: a.server}, isSpoilt: true, isUnreadable: unreadable})
}
