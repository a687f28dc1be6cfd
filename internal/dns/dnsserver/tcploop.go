package dnsserver

import (
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// tcpLoop serves some of the connections that come in on one address: it accepts them, reads them, and answers at once what it can.
// It waits in Go's netpoller, or, while there is much to do, in the kernel. All but wake is its goroutine's.
type tcpLoop struct {
	t     *tcpSocket
	s     *Server
	epoll int
	bell  *rawsock.Bell

	pace        rawsock.Pace
	isListening bool
	isDraining  bool
	conns       map[int]*tcpConn // by descriptor
	ended       []*tcpConn       // a few, whose memory is used again
	events      [64]unix.EpollEvent
	now         time.Time // when these came
	next        time.Time // when to look after the connections; zero: never

	in      []byte   // what is read of a connection
	out     []byte   // responses, each with its length, that leave with the next flush
	samples []sample // of their queries
	query   WireQuery
	picks   sampler // of hits that are watched

	direct tally
	late   tally // of what is answered after the loop has gone on
}

const (
	// acceptBatch bounds the connections that are accepted before the others are looked after.
	acceptBatch = 8
	// keptConns is how many connections' memory a loop keeps.
	keptConns = 64
	// lookPause is the least between two looks after all connections.
	lookPause = 10 * time.Millisecond
	// deafPause is for how long nothing is accepted where no file descriptor is left.
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

// listen has epoll(7) tell of new connections, or tell no more. Not every loop is woken for each.
func (l *tcpLoop) listen(what int) error {
	err := unix.EpollCtl(l.epoll, what, l.t.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE, Fd: int32(l.t.fd)})
	l.isListening = err == nil && what == unix.EPOLL_CTL_ADD
	return err
}

// wake ends the loop's wait, so that it sees what it is to do.
func (l *tcpLoop) wake() { l.bell.SetDeadline(time.Now()) }

// run is the loop, until it is stopped and its last connection has ended.
func (l *tcpLoop) run() {
	for !l.isDraining || len(l.conns) > 0 {
		l.turn()
	}
	l.bell.Close()
	unix.Close(l.epoll)
	l.s.removeTally(&l.direct)
	l.s.removeTally(&l.late)
}

// turn is one wait, and what comes of it. A panic costs one connection at most.
func (l *tcpLoop) turn() {
	defer l.s.recovered(exchange{})
	l.bell.SetDeadline(l.next)
	if l.obey() {
		return
	}
	_ = l.bell.Wait() // or it is time to look after the connections
	l.take(0)
	if !l.pace.IsBusy() || !l.s.threads.Enter() {
		return
	}
	defer l.s.threads.Leave()
	l.bell.Mute()
	defer l.bell.Unmute()
	for l.pace.IsBusy() && l.t.stopping.Load() == l.isDraining && !l.t.leaving.Load() {
		l.take(l.patience())
	}
}

// patience is how long the loop may wait in the kernel.
func (l *tcpLoop) patience() time.Duration {
	if l.next.IsZero() {
		return rawsock.Timeout
	}
	return min(rawsock.Timeout, max(0, l.next.Sub(l.now))+time.Millisecond) // epoll(7) counts whole ones
}

// obey does what the socket is told, and reports whether there was anything.
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

// drain has the loop accept no more. The last one of its socket closes that.
func (l *tcpLoop) drain() {
	if l.isDraining {
		return
	}
	l.isDraining = true
	_ = l.listen(unix.EPOLL_CTL_DEL) // fails where it did not listen
	if int(l.t.deaf.Add(1)) == len(l.t.loops) {
		unix.Close(l.t.fd)
	}
}

// take waits for events and handles them. New connections come last: only then can none have the descriptor of one that ends here.
func (l *tcpLoop) take(wait time.Duration) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events)), uintptr(len(l.events)),
		uintptr(wait.Milliseconds()), 0, 0)
	if errno != 0 {
		n = 0
	}
	l.now = time.Now()
	isCalled := false
	for _, event := range l.events[:n] {
		switch c := l.conns[int(event.Fd)]; {
		case c != nil && event.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
			l.close(c) // nobody is there to be answered
		case c != nil:
			l.attend(c)
		case int(event.Fd) == l.t.fd:
			isCalled = true
		}
	}
	if isCalled && l.isListening {
		l.accept()
	}
	if !l.next.IsZero() && !l.now.Before(l.next) {
		l.lookAfterAll()
	}
	l.pace.Add(int(n), l.now)
}

// accept takes connections that wait. When the process has no file descriptor left it closes them, and listens no more for a moment.
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
			l.s.counters.tcpStarved.Add(uint64(l.s.spare.turnAway(l.t.fd)))
			_ = l.listen(unix.EPOLL_CTL_DEL)
			l.by(l.now.Add(deafPause))
			return
		default: // EAGAIN: no other waits
			return
		}
	}
}

func (l *tcpLoop) accepted(fd int, client netip.AddrPort) {
	c := l.newConn(fd, client)
	if !c.isOwn && !l.enter(c) {
		unix.Close(fd)
		return
	}
	l.conns[fd] = c
	l.attend(c)
	if !c.isOwn { // the watchdog closes its own
		l.soon(c)
	}
}

// enter has a connection count, and its client have one place less.
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

// attend does what can be done for a connection now.
func (l *tcpLoop) attend(c *tcpConn) {
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

// close ends a connection. A query of it that is still being answered keeps the memory.
func (l *tcpLoop) close(c *tcpConn) {
	fd, owed := c.shut()
	if fd < 0 {
		return
	}
	delete(l.conns, fd)
	unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	if !c.isOwn {
		l.s.conns.remove(c)
		l.s.counters.tcpOpen.Add(-1)
	}
	if owed == 0 && len(l.ended) < keptConns {
		l.ended = append(l.ended, c)
	}
}

// soon has the loop look after a connection in time, if it is still open.
func (l *tcpLoop) soon(c *tcpConn) {
	if due, ok := c.deadline(l.now); ok {
		l.by(due)
	}
}

// by has the loop look after all at that time, or before.
func (l *tcpLoop) by(due time.Time) {
	if l.next.IsZero() || due.Before(l.next) {
		l.next = due
	}
}

// lookAfterAll ends what has taken too long.
func (l *tcpLoop) lookAfterAll() {
	l.next = time.Time{}
	if !l.isListening && !l.isDraining {
		_ = l.listen(unix.EPOLL_CTL_ADD) // it was there before
	}
	for _, c := range l.conns {
		if due, ok := c.deadline(l.now); ok && !l.now.Before(due) {
			c.expire(l.now)
			l.attend(c)
		}
		l.soon(c)
	}
	if soonest := l.now.Add(lookPause); !l.next.IsZero() && l.next.Before(soonest) {
		l.next = soonest
	}
}
