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

// tcpConn is one connection (RFC 7766). Queries are read one after the other, answered
// concurrently, and responses are sent as they become ready.
type tcpConn struct {
	l      *tcpLoop
	s      *Server
	client netip.AddrPort
	owner  netip.Addr // client whose share the connection counts against

	asking atomic.Int32 // queries whose response is not made yet
	active atomic.Int64 // time of last use, in nanoseconds since the server was created

	// Used only by the loop's goroutine.
	frames   frames
	hasAsked bool
	partial  time.Time // time since which a message is incomplete; zero if none is
	last     time.Time // time when reading ends unless data is unread; zero if not set
	end      time.Time // likewise: time when reading ends regardless

	mu        sync.Mutex // guards the fields below
	fd        int        // -1 if closed
	interest  uint32     // events registered with epoll(7); 0 if none yet
	isReading bool       // the client may still send queries
	isPaused  bool       // MaxPipelined queries are pending, so reading is paused
	isBroken  bool       // writing is no longer possible
	pending   int        // queries not yet answered
	unsent    [][]byte   // responses that the client has not read yet, in order
	sending   time.Time  // time since which the first of these waits
}

// begin initializes a connection in memory that is not in use.
func (c *tcpConn) begin(l *tcpLoop, fd int, client netip.AddrPort) {
	*c = tcpConn{
		l: l, s: l.s, client: client, owner: client.Addr(), fd: fd, isReading: true,
		frames: frames{rest: c.frames.rest[:0]}, unsent: c.unsent[:0],
	}
	if a := c.s.access.Load(); a != nil && !a.Allows(l.t.local, c.owner) {
		c.owner = netip.Addr{} // all clients that are not allowed share one client's limit
	}
	c.touch(l.now)
}

func (c *tcpConn) touch(now time.Time) { c.active.Store(int64(now.Sub(c.s.made))) }

// mayGo reports whether the connection may be closed to make room for another. It may if no query
// of it is being resolved; the client may be slow to read its responses.
func (c *tcpConn) mayGo() bool { return c.asking.Load() == 0 }

// proceed sends, reads and answers what is possible now. It returns false when the connection has
// ended.
func (c *tcpConn) proceed() bool {
	if c.resume() {
		c.take()
	}
	return c.rearm()
}

// resume sends pending responses and reports whether more may be read.
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
	// Answer no further queries before the client reads.
	return c.isReading && !c.isBroken && !c.isPaused && len(c.unsent) == 0
}

// rearm registers the next event with epoll. It returns false if the connection waits for no event.
func (c *tcpConn) rearm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isBroken || !c.isReading && c.isSettledLocked() {
		return false
	}
	return c.watchLocked()
}

// isSettledLocked reports whether the client has received all responses.
func (c *tcpConn) isSettledLocked() bool { return c.pending == 0 && len(c.unsent) == 0 }

// watchLocked registers with epoll(7) the events that the loop must handle. A writable socket is
// reported at once, which other goroutines use to wake the loop.
func (c *tcpConn) watchLocked() bool {
	var want uint32
	if c.isReading && !c.isPaused && len(c.unsent) == 0 {
		want |= unix.EPOLLIN
	}
	hasRoom := c.isPaused && c.pending < c.s.cfg.MaxPipelined
	if len(c.unsent) > 0 || hasRoom || c.isBroken || !c.isReading && c.isSettledLocked() {
		want |= unix.EPOLLOUT
	}
	if want |= unix.EPOLLHUP; want == c.interest { // always reported
		return true
	}
	what := unix.EPOLL_CTL_MOD
	if c.interest == 0 {
		what = unix.EPOLL_CTL_ADD
	}
	c.interest = want
	return unix.EpollCtl(c.l.epoll, what, c.fd, &unix.EpollEvent{Events: want, Fd: int32(c.fd)}) == nil
}

// take reads once, unless a message is already complete, and handles all complete messages.
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

// note updates the timestamps after the given number of messages was handled.
func (c *tcpConn) note(taken int) {
	if taken > 0 {
		c.hasAsked = true
		c.touch(c.l.now)
		c.partial = time.Time{}
		if !c.last.IsZero() {
			// A client that gets an answer then sees the end of the stream, and sends its next
			// query on a new connection.
			c.readNoMore(false)
		}
	}
	if _, _, isWhole := nextMessage(c.frames.rest); !isWhole && len(c.frames.rest) >= prefixSize && c.partial.IsZero() {
		c.partial = c.l.now
	}
}

// receive calls recvfrom(2) without blocking.
func receive(fd int, in []byte) (n int, errno unix.Errno) {
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(in))), uintptr(len(in)),
		unix.MSG_DONTWAIT, 0, 0)
	return int(got), errno
}

// readNoMore makes the connection end once all queries are answered, or now if it is broken.
func (c *tcpConn) readNoMore(isBroken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isReading = false
	c.isBroken = c.isBroken || isBroken
}

// received handles one message. It returns false if nothing more may be read from this client.
// Responses that are ready at once leave with the next flush.
func (c *tcpConn) received(wire []byte) bool {
	l := c.l
	v, rcode := accept(wire)
	if v == parse {
		if response := c.s.comesBack.Load().answerOwn(wire); response != nil {
			c.write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...), l.now)
			return true
		}
	}
	l.direct.tcpQueries.Add(1)
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
		if isFailure(response[start+prefixSize:]) {
			c.s.failedAt(&x, response[start+prefixSize:], ByWire, "")
		}
		c.gathered(response, start, query)
		return true
	}
	if len(wire) > shortQuery {
		wire, _ = shortened(wire)
	}
	x.wire = slices.Clone(wire)
	c.asked()
	l.t.active.Go(func() { c.answer(x, query) })
	return true
}

// asked counts a query whose answer comes later.
func (c *tcpConn) asked() {
	c.asking.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
	c.isPaused = c.pending >= c.s.cfg.MaxPipelined
}

// refuse sends the server's own response to a query unless it is nil.
func (c *tcpConn) refuse(x exchange, response []byte, why denial) {
	start := len(c.l.out)
	c.gathered(append(append(c.l.out, 0, 0), response...), start, newSample(x.wire))
	c.s.denied(c.s.watch.Load(), x, response, why)
}

// gathered takes over the output buffer after a response was appended. The response, preceded by
// space for its length, begins at start.
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

// flush sends the collected responses.
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

// answer answers a query that the fast path could not answer. It releases its slot before it
// writes, so a client that does not read blocks only itself.
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

// answered undoes asked.
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
		c.s.denied(c.s.watch.Load(), x, response, why)
		return response
	case full:
		if !c.s.waitToEnter(client, burst, nil) {
			return c.s.shed(x, buf)
		}
	}
	defer c.s.leave(client)
	return c.s.serve(x, buf)
}
