package dnsserver

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tcpConn is one connection, RFC 7766: queries are read one after the other, answered at the same time, and responses sent as they
// are ready.
type tcpConn struct {
	l      *tcpLoop
	s      *Server
	client netip.AddrPort
	owner  netip.Addr // whose share of the connections it is of
	isOwn  bool       // the watchdog's

	asking atomic.Int32 // queries whose response is not made yet
	active atomic.Int64 // when it was last used, in nanoseconds since the server was made

	// The loop's own.
	frames   frames
	hasAsked bool
	partial  time.Time // since when a message is not whole though its length is known; zero: none is
	last     time.Time // when reading ends, unless something is unread then; zero: not yet
	end      time.Time // likewise: when it ends for good

	mu        sync.Mutex // guards what follows
	fd        int        // -1: it is closed
	interest  uint32     // what epoll(7) was told; 0: nothing yet
	isReading bool       // the client may still ask
	isPaused  bool       // MaxPipelined queries wait for an answer: nothing is read
	isBroken  bool       // nothing can be written any more
	pending   int        // queries not yet answered
	unsent    [][]byte   // what the client has not read yet, in order
	sending   time.Time  // since when the first of it waits
}

// begin makes a connection of memory that nobody uses.
func (c *tcpConn) begin(l *tcpLoop, fd int, client netip.AddrPort) {
	*c = tcpConn{
		l: l, s: l.s, client: client, owner: client.Addr(), isOwn: l.s.own.has(client), fd: fd, isReading: true,
		frames: frames{rest: c.frames.rest[:0]}, unsent: c.unsent[:0],
	}
	if a := c.s.access.Load(); a != nil && !a.Allows(l.t.local, c.owner) {
		c.owner = netip.Addr{} // all strangers together are one client
	}
	c.touch(l.now)
}

func (c *tcpConn) touch(now time.Time) { c.active.Store(int64(now.Sub(c.s.made))) }

// mayGo reports whether it may be closed for another: nothing is being found out for its client, who reads what he asked for,
// or does not, at his own pace.
func (c *tcpConn) mayGo() bool { return c.asking.Load() == 0 }

// proceed sends, reads and answers what can be now; false: the connection is at its end.
func (c *tcpConn) proceed() bool {
	if c.resume() {
		c.take()
	}
	return c.goOn()
}

// resume sends what waits, and reports whether more may be read.
func (c *tcpConn) resume() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendUnsentLocked(c.l.now)
	c.isPaused = c.pending >= c.s.cfg.MaxPipelined
	return c.mayReadLocked()
}

func (c *tcpConn) mayRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mayReadLocked()
}

func (c *tcpConn) mayReadLocked() bool {
	return c.isReading && !c.isBroken && !c.isPaused && len(c.unsent) == 0 // nobody gets what else was asked
}

// goOn has the loop told of what comes next; false: nothing does.
func (c *tcpConn) goOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isBroken || !c.isReading && c.isSettledLocked() {
		return false
	}
	return c.watchLocked()
}

// isSettledLocked reports whether the client has all that it asked for.
func (c *tcpConn) isSettledLocked() bool { return c.pending == 0 && len(c.unsent) == 0 }

// watchLocked has epoll(7) tell the loop when there is something to do. That a socket can be written to is told at once: so other
// goroutines call the loop.
func (c *tcpConn) watchLocked() bool {
	var want uint32
	if c.isReading && !c.isPaused && len(c.unsent) == 0 {
		want |= unix.EPOLLIN
	}
	hasRoom := c.isPaused && c.pending < c.s.cfg.MaxPipelined
	if len(c.unsent) > 0 || hasRoom || c.isBroken || !c.isReading && c.isSettledLocked() {
		want |= unix.EPOLLOUT
	}
	if want |= unix.EPOLLHUP; want == c.interest { // which is told in any case
		return true
	}
	what := unix.EPOLL_CTL_MOD
	if c.interest == 0 {
		what = unix.EPOLL_CTL_ADD
	}
	c.interest = want
	return unix.EpollCtl(c.l.epoll, what, c.fd, &unix.EpollEvent{Events: want, Fd: int32(c.fd)}) == nil
}

// take reads once, unless a message is there already, and takes all messages that are whole.
func (c *tcpConn) take() {
	octets := c.frames.rest
	if _, _, ok := nextMessage(octets); !ok {
		n, errno := receive(c.fd, c.l.in)
		switch {
		case errno == unix.EAGAIN, errno == unix.EINTR:
			return
		case errno != 0, n == 0:
			c.readNoMore(errno != 0)
			return
		}
		octets = c.frames.join(c.l.in[:n])
	}
	taken := 0
	for c.mayRead() {
		message, left, ok := nextMessage(octets)
		if !ok {
			break
		}
		octets = left
		taken++
		if !c.received(message) {
			c.readNoMore(false)
		}
	}
	c.flush()
	c.frames.keep(octets)
	c.note(taken)
}

// note notes when what waits in frames began, after so many messages.
func (c *tcpConn) note(taken int) {
	if taken > 0 {
		c.hasAsked = true
		c.touch(c.l.now)
		c.partial = time.Time{}
		if !c.last.IsZero() {
			c.readNoMore(false) // who has an answer sees the end after it, and asks the next one elsewhere
		}
	}
	if _, _, isWhole := nextMessage(c.frames.rest); !isWhole && len(c.frames.rest) >= prefixSize && c.partial.IsZero() {
		c.partial = c.l.now
	}
}

// receive is recvfrom(2) that does not wait.
func receive(fd int, in []byte) (n int, errno unix.Errno) {
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		unix.MSG_DONTWAIT, 0, 0)
	return int(got), errno
}

// readNoMore has the connection end when all is answered, or now, where it is broken.
func (c *tcpConn) readNoMore(isBroken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isReading = false
	c.isBroken = c.isBroken || isBroken
}

// received takes one message; false: nothing that this client says is DNS. What is answered at once leaves with the next
// flush.
func (c *tcpConn) received(wire []byte) bool {
	l := c.l
	if c.isOwn {
		response := c.s.answerPing(exchange{wire: wire, client: c.client, local: l.t.local, proto: TCP})
		c.write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...), l.now)
		return false // there is no more
	}
	l.direct.tcpQueries.Add(1)
	v, rcode := accept(wire)
	if v == drop {
		l.direct.dropped.Add(1)
		return len(wire) >= headerSize
	}
	x := exchange{wire: wire, client: c.client, local: l.t.local, proto: TCP, arrived: l.now}
	if why := c.s.access.Load().denies(l.t.local, c.client.Addr()); why != allowed {
		c.refuse(x, c.s.deny(x, why), why)
		return why != stranger
	}
	if v == refuse {
		l.direct.refused.Add(1)
		c.refuse(x, c.s.refuse(x, rcode), allowed)
		return true
	}
	start := len(l.out)
	response, _ := c.s.onWire(&x, &l.query, append(l.out, 0, 0))
	query := l.query.sample()
	if response != nil {
		c.s.countResponse(response[start+prefixSize:], &l.direct)
		if w := c.s.watch.Load(); w != nil {
			l.picks.begin(l.now, w.hits)
			w.hit(&x, response[start+prefixSize:], &l.picks)
		}
		c.gathered(response, start, query)
		return true
	}
	x.wire = slices.Clone(wire)
	c.asked()
	l.t.active.Go(func() { c.answer(x, query) })
	return true
}

// asked counts a query that is answered later.
func (c *tcpConn) asked() {
	c.asking.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
	c.isPaused = c.pending >= c.s.cfg.MaxPipelined
}

// refuse sends the server's own response to a query; nil: none is sent.
func (c *tcpConn) refuse(x exchange, response []byte, why denial) {
	start := len(c.l.out)
	c.gathered(append(append(c.l.out, 0, 0), response...), start, newSample(x.wire))
	_, text := why.explanation()
	c.s.watch.Load().tell(x, response, ByServer, text)
}

// gathered is called with what is to be sent, in which the last response, behind room for its length, begins at start.
func (c *tcpConn) gathered(out []byte, start int, query sample) {
	l := c.l
	l.samples = append(l.samples, query.with(out[start+prefixSize:]))
	size := len(out) - start - prefixSize
	binary.BigEndian.PutUint16(out[start:], uint16(size))
	if size == 0 {
		out = out[:start]
	}
	if l.out = out; len(out) >= flushSize {
		c.flush()
	}
}

// flush sends what was gathered.
func (c *tcpConn) flush() {
	l := c.l
	if len(l.samples) == 0 {
		return
	}
	c.write(l.out, l.now)
	l.direct.traffic.sent(l.now, l.samples)
	l.samples = l.samples[:0]
	if l.out = l.out[:0]; cap(l.out) > 2*flushSize+math.MaxUint16 {
		l.out = nil
	}
}

// answer answers a query that Wire has no answer to. It leaves its place among the queries in flight before it writes: a client that
// does not read holds up nobody but itself.
func (c *tcpConn) answer(x exchange, query sample) {
	defer c.answered()
	defer c.s.recovered(x)
	buf := c.s.buffers.Get().(*[]byte)
	defer c.s.buffers.Put(buf)
	response := c.ask(x, *buf)
	if response != nil {
		framed := binary.BigEndian.AppendUint16(make([]byte, 0, prefixSize+len(response)), uint16(len(response)))
		c.write(append(framed, response...), time.Now())
	}
	c.l.late.traffic.add(time.Since(x.arrived), query.with(response))
}

// answered ends what asked began.
func (c *tcpConn) answered() {
	c.touch(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending--; c.fd >= 0 && c.interest != 0 {
		c.watchLocked()
	}
}

func (c *tcpConn) ask(x exchange, buf []byte) []byte {
	defer c.asking.Add(-1)
	client := x.client.Addr()
	why := crowding
	switch c.s.enter(client) {
	case spent:
		why = costly
		fallthrough
	case enough:
		response := c.s.crowd(x, why)
		_, text := why.explanation()
		c.s.watch.Load().tell(x, response, ByServer, text)
		return response
	case full:
		if !c.s.waitToEnter(client, burst, nil) {
			return c.s.shed(x, buf)
		}
	}
	defer c.s.leave(client)
	return c.s.serve(x, buf)
}
