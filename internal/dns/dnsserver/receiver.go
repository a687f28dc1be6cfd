package dnsserver

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// receiver receives from UDP sockets. There are as many receivers as one address has sockets, and
// each receiver has one socket of each address. It waits in Go's netpoller, or in the kernel while
// it is busy. It ends when it has no sockets left.
type receiver struct {
	threads rawsock.Threads
	epoll   int
	bell    *rawsock.Bell
	changed atomic.Bool // a socket was added or is to be removed

	mu      sync.Mutex // guards the fields below
	sockets []*udpSocket
	ended   bool

	// Used only by the receiver's goroutine.
	serving []*udpSocket // copy of sockets at the last change
	fds     []int32      // of serving
	work    *workspace
	pace    rawsock.Pace
	events  [64]unix.EpollEvent
}

// join assigns a socket to a receiver: a new one while there are few, otherwise the one with the
// fewest sockets. The caller holds s.changing.
func (s *Server) join(u *udpSocket) error {
	s.receivers = slices.DeleteFunc(s.receivers, (*receiver).hasEnded)
	if len(s.receivers) == s.cfg.UDPSockets {
		return slices.MinFunc(s.receivers, func(a, b *receiver) int { return a.count() - b.count() }).add(u)
	}
	r, err := newReceiver(s.threads)
	if err != nil {
		return err
	}
	if err := r.add(u); err != nil {
		r.close()
		return err
	}
	s.receivers = append(s.receivers, r)
	go r.run()
	return nil
}

func newReceiver(threads rawsock.Threads) (*receiver, error) {
	epoll, err := rawsock.NewEpoll()
	if err != nil {
		return nil, err
	}
	r := &receiver{threads: threads, epoll: epoll}
	if r.bell, err = rawsock.NewBell(epoll); err != nil {
		unix.Close(epoll)
		return nil, err
	}
	r.work = newWorkspace()
	return r, nil
}

func (r *receiver) close() {
	r.bell.Close()
	unix.Close(r.epoll)
	r.work.in.release()
}

func (r *receiver) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sockets)
}

// add gives the receiver a socket. The receiver calls u.receiving.Done when it has left the socket.
func (r *receiver) add(u *udpSocket) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(u.file.fd)}
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, u.file.fd, &event); err != nil {
		return err
	}
	u.receiver, u.workspace = r, r.work
	u.receiving.Add(1)
	r.sockets = append(r.sockets, u)
	r.wake()
	return nil
}

// wake makes the receiver look for changes.
func (r *receiver) wake() {
	r.changed.Store(true)
	r.bell.SetDeadline(time.Now())
}

// run receives until no socket is left.
func (r *receiver) run() {
	defer r.close()
	for r.settle() {
		if r.bell.Wait() != nil {
			continue
		}
		r.take(0)
		if r.pace.IsBusy() && r.threads.Enter() {
			r.takeBlocked()
			r.threads.Leave()
		}
	}
}

// settle applies changes. It returns false if no socket is left.
func (r *receiver) settle() bool {
	r.bell.SetDeadline(time.Time{}) // before the check, so that a later change sets the deadline again
	if !r.changed.Swap(false) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []*udpSocket
	r.sockets = slices.DeleteFunc(r.sockets, func(u *udpSocket) bool {
		stops := u.stopping.Load()
		if stops {
			left = append(left, u)
		}
		return stops
	})
	r.serving = slices.Clone(r.sockets)
	r.fds = r.fds[:0]
	for _, u := range r.serving {
		r.fds = append(r.fds, int32(u.file.fd))
	}
	r.ended = len(r.serving) == 0
	for _, u := range left {
		_ = unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, u.file.fd, nil) // fails if it is not registered
		u.receiving.Done()
	}
	return !r.ended
}

// takeBlocked receives while blocked in the kernel, until the receiver is idle or something
// changes.
func (r *receiver) takeBlocked() {
	r.bell.Mute()
	defer r.bell.Unmute()
	for r.pace.IsBusy() && !r.changed.Load() {
		if len(r.serving) == 1 {
			r.receive(r.serving[0], true) // saves a system call
		} else {
			r.take(rawsock.Timeout)
		}
	}
}

// take receives from all sockets that have data. It waits for data up to the given time.
func (r *receiver) take(wait time.Duration) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(r.epoll), uintptr(unsafe.Pointer(&r.events)), uintptr(len(r.events)),
		uintptr(wait.Milliseconds()), 0, 0)
	if errno != 0 || n == 0 {
		r.pace.Add(0, time.Now())
		return
	}
	for _, event := range r.events[:n] {
		if i := slices.Index(r.fds, event.Fd); i >= 0 {
			r.receive(r.serving[i], false)
		}
	}
}

// receive receives once from a socket.
func (r *receiver) receive(u *udpSocket, wait bool) {
	_ = u.file.Control(func(fd uintptr) { r.pace.Add(u.receiveBatch(fd, wait)) }) // fails on a closed socket only
}
