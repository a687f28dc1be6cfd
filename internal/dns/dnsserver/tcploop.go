package dnsserver

import (
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// tcpLoop serves some of the connections of one address. It accepts them, reads them, and answers
// at once what it can. It waits in Go's netpoller, or in the kernel while it is busy. All methods
// except wake run on its goroutine.
type tcpLoop struct {
	t     *tcpSocket
	s     *Server
	epoll int
	bell  *rawsock.Bell

	pace        rawsock.Pace
	isListening bool
	isDraining  bool
	conns       map[int]*tcpConn // by descriptor
	ended       []*tcpConn       // a few closed connections whose memory is reused
	events      [64]unix.EpollEvent
	now         time.Time // time of the last events
	next        time.Time // time of the next check of all connections; zero means never

	in      []byte   // read buffer
	out     []byte   // responses with their length prefixes for the next flush
	samples []sample // samples of their queries
	query   WireQuery
	picks   sampler // sampling of hits for the Watch

	// For the watchdog.
	isServing atomic.Bool   // false while the loop waits in Go's netpoller
	turns     atomic.Uint64 // number of calls of take

	direct tally
	late   tally // for queries answered after the loop has moved on
}

const (
	// acceptBatch is the maximum number of connections accepted before the others are served.
	acceptBatch = 8
	// keptConns is the number of closed connections whose memory a loop keeps.
	keptConns = 64
	// lookPause is the minimum interval between two checks of all connections.
	lookPause = 10 * time.Millisecond
	// deafPause is how long the loop stops accepting when no file descriptor is left.
	deafPause = 5 * time.Millisecond
)

func newTCPLoop(t *tcpSocket) (*tcpLoop, error) {
	l := &tcpLoop{t: t, s: t.s, conns: map[int]*tcpConn{}, in: make([]byte, readSize)}
	var err error
	if l.epoll, err = rawsock.NewEpoll(); err != nil {
		return nil, err
	}
	if l.bell, err = rawsock.NewBell(l.epoll); err == nil {
		if err = l.listen(unix.EPOLL_CTL_ADD); err != nil {
			l.bell.Close()
		}
	}
	if err != nil {
		unix.Close(l.epoll)
		return nil, err
	}
	l.direct.traffic, l.late.traffic = newTraffic(TCP, t.local.Addr()), newTraffic(TCP, t.local.Addr())
	l.s.addTally(&l.direct)
	l.s.addTally(&l.late)
	return l, nil
}

// listen registers the listening socket with epoll(7), or removes it. A new connection does not
// wake every loop.
func (l *tcpLoop) listen(what int) error {
	err := unix.EpollCtl(l.epoll, what, l.t.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE, Fd: int32(l.t.fd)})
	l.isListening = err == nil && what == unix.EPOLL_CTL_ADD
	return err
}

// wake ends the loop's wait so that it notices changes.
func (l *tcpLoop) wake() { l.bell.SetDeadline(time.Now()) }

// run runs the loop until it is stopped and its last connection has ended.
func (l *tcpLoop) run() {
	for !l.isDraining || len(l.conns) > 0 {
		l.turn()
	}
	l.bell.Close()
	unix.Close(l.epoll)
	l.s.removeTally(&l.direct)
	l.s.removeTally(&l.late)
}

// turn waits once and handles the events. A panic affects one connection at most.
func (l *tcpLoop) turn() {
	defer l.s.recovered(exchange{})
	l.bell.SetDeadline(l.next)
	if l.obey() {
		return
	}
	l.isServing.Store(false)
	_ = l.bell.Wait() // an error means that it is time to check the connections
	l.isServing.Store(true)
	l.take(0)
	if !l.pace.IsBusy() || !l.s.threads.Enter() {
		return
	}
	defer l.s.threads.Leave()
	l.bell.Mute()
	defer l.bell.Unmute()
	for l.pace.IsBusy() && l.t.stopping.Load() == l.isDraining && !l.t.leaving.Load() {
		l.take(l.waitTime())
	}
}

// waitTime returns how long the loop may block in the kernel.
func (l *tcpLoop) waitTime() time.Duration {
	if l.next.IsZero() {
		return rawsock.Timeout
	}
	// epoll(7) counts whole milliseconds.
	return min(rawsock.Timeout, max(0, l.next.Sub(l.now))+time.Millisecond)
}

// obey applies the stop flags of the socket and reports whether any is new.
func (l *tcpLoop) obey() bool {
	l.now = time.Now()
	switch {
	case l.t.leaving.Load():
		l.drain()
		for _, c := range l.conns {
			l.close(c)
		}
	case l.t.stopping.Load() && !l.isDraining:
		l.drain()
		for _, c := range l.conns {
			c.lastCall(l.now)
			l.soon(c)
		}
	default:
		return false
	}
	return true
}

// drain stops accepting. The last loop of the socket closes it.
func (l *tcpLoop) drain() {
	if l.isDraining {
		return
	}
	l.isDraining = true
	_ = l.listen(unix.EPOLL_CTL_DEL) // fails if it was not listening
	if int(l.t.deaf.Add(1)) == len(l.t.loops) {
		unix.Close(l.t.fd)
	}
}

// take waits for events and handles them. It accepts new connections last, so that none gets the
// descriptor of a connection that ends in the same round.
func (l *tcpLoop) take(wait time.Duration) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events)), uintptr(len(l.events)),
		uintptr(wait.Milliseconds()), 0, 0)
	if errno != 0 {
		n = 0
	}
	l.now = time.Now()
	l.turns.Add(1)
	isCalled := false
	for _, event := range l.events[:n] {
		switch c := l.conns[int(event.Fd)]; {
		case c != nil && event.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
			l.close(c) // the client is gone
		case c != nil:
			l.handleEvents(c)
		case int(event.Fd) == l.t.fd:
			isCalled = true
		}
	}
	if isCalled && l.isListening {
		l.accept()
	}
	if !l.next.IsZero() && !l.now.Before(l.next) {
		l.checkDeadlines()
	}
	l.pace.Add(int(n), l.now)
}

// accept accepts waiting connections. If no file descriptor is left, it closes them and stops
// listening for a moment.
func (l *tcpLoop) accept() {
	for range acceptBatch {
		var name unix.RawSockaddrInet6
		size := uint32(unsafe.Sizeof(name))
		fd, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(l.t.fd), uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&size)),
			unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			l.accepted(int(fd), rawsock.AddrPort(&name))
		case unix.EMFILE, unix.ENFILE:
			l.s.counters.tcpStarved.Add(uint64(l.s.spare.closePending(l.t.fd)))
			_ = l.listen(unix.EPOLL_CTL_DEL)
			l.by(l.now.Add(deafPause))
			return
		default: // EAGAIN: no more connections wait
			return
		}
	}
}

func (l *tcpLoop) accepted(fd int, client netip.AddrPort) {
	c := l.newConn(fd, client)
	if !l.enter(c) {
		unix.Close(fd)
		return
	}
	l.conns[fd] = c
	l.handleEvents(c)
	l.soon(c)
}

// enter counts a connection against the limits of the server and its client.
func (l *tcpLoop) enter(c *tcpConn) bool {
	l.t.count.Add(1)
	if !l.s.conns.add(c, &l.s.counters) {
		l.s.counters.tcpRejected.Add(1)
		return false
	}
	l.s.counters.tcpAccepted.Add(1)
	l.s.counters.tcpOpen.Add(1)
	return true
}

func (l *tcpLoop) newConn(fd int, client netip.AddrPort) *tcpConn {
	c := new(tcpConn)
	if last := len(l.ended) - 1; last >= 0 {
		c, l.ended = l.ended[last], l.ended[:last]
	}
	c.begin(l, fd, client)
	return c
}

// handleEvents handles everything that is possible for a connection now.
func (l *tcpLoop) handleEvents(c *tcpConn) {
	defer func() {
		if p := recover(); p != nil {
			l.s.panicked(exchange{client: c.client}, p)
			l.out, l.samples = nil, nil
			l.close(c)
		}
	}()
	if !c.proceed() {
		l.close(c)
	}
}

// close closes a connection. A query that is still being answered keeps its memory alive.
func (l *tcpLoop) close(c *tcpConn) {
	fd, owed := c.detach()
	if fd < 0 {
		return
	}
	delete(l.conns, fd)
	unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	l.s.conns.remove(c)
	l.s.counters.tcpOpen.Add(-1)
	if owed == 0 && len(l.ended) < keptConns {
		l.ended = append(l.ended, c)
	}
}

// soon schedules a check at the deadline of a connection, if it is still open.
func (l *tcpLoop) soon(c *tcpConn) {
	if due, ok := c.deadline(l.now); ok {
		l.by(due)
	}
}

// by schedules a check of all connections at that time or earlier.
func (l *tcpLoop) by(due time.Time) {
	if l.next.IsZero() || due.Before(l.next) {
		l.next = due
	}
}

// checkDeadlines expires connections that have reached their deadline.
func (l *tcpLoop) checkDeadlines() {
	l.next = time.Time{}
	if !l.isListening && !l.isDraining {
		_ = l.listen(unix.EPOLL_CTL_ADD) // it was registered before
	}
	for _, c := range l.conns {
		if due, ok := c.deadline(l.now); ok && !l.now.Before(due) {
			c.expire(l.now)
			l.handleEvents(c)
		}
		l.soon(c)
	}
	if soonest := l.now.Add(lookPause); !l.next.IsZero() && l.next.Before(soonest) {
		l.next = soonest
	}
}
