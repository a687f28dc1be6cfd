package dnsserver

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tcpConn is one connection, RFC 7766: queries are read one after the other,
// answered at the same time, and responses sent as they are ready.
type tcpConn struct {
	s      *Server
	conn   net.Conn
	client netip.AddrPort
	local  netip.AddrPort
	owner  netip.Addr // whose share of the connections it is of

	slots   chan struct{} // MaxPipelined: one for each query not yet answered
	pending atomic.Int32  // queries not yet answered
	asking  atomic.Int32  // of them: those whose response is not made yet
	active  atomic.Int64  // when it was last used, in nanoseconds since the server was made
	queries sync.WaitGroup

	writing sync.Mutex  // held while one response is written
	broken  atomic.Bool // nothing can be written any more

	// Of the goroutine that reads.
	out     []byte    // responses, each with its length, that leave with the next flush
	samples []sample  // of their queries
	since   time.Time // when those were received
	tally   tally
	query   WireQuery

	mu   sync.Mutex // guards what follows, and setting the read deadline
	last time.Time  // when reading ends, unless something is unread then; zero: not yet
	end  time.Time  // likewise: when it ends for good
}

// lastCall is how long a connection that is being drained may still ask: who has connected asks within a round trip, and
// what is unread when a connection is closed resets it, and is lost with it.
// It is given again while something is unread, up to longestCall: this goroutine may have had no processor.
const (
	lastCall    = 100 * time.Millisecond
	longestCall = time.Second
)

func newTCPConn(s *Server, conn net.Conn, client, local netip.AddrPort) *tcpConn {
	c := &tcpConn{
		s:      s,
		conn:   conn,
		client: client,
		local:  local,
		slots:  make(chan struct{}, s.cfg.MaxPipelined),
	}
	c.tally.traffic = newTraffic(TCP, local.Addr())
	c.owner = client.Addr()
	if a := s.access.Load(); a != nil && !a.Allows(local, c.owner) {
		c.owner = netip.Addr{} // all strangers together are one client
	}
	c.touch()
	return c
}

func (c *tcpConn) touch() { c.active.Store(int64(time.Since(c.s.made))) }

// idle reports whether the connection owes no response.
func (c *tcpConn) idle() bool { return c.pending.Load() == 0 }

// mayGo reports whether it may be closed for another: nothing is being found out for its client, who reads what he asked for,
// or does not, at his own pace.
func (c *tcpConn) mayGo() bool { return c.asking.Load() == 0 }

// stopReading has serve end after the next query, or when none comes soon, and all that were read are answered.
func (c *tcpConn) stopReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.last, c.end = now.Add(lastCall), now.Add(longestCall)
	c.conn.SetReadDeadline(c.last)
}

// callAgain reports whether there is more to read after the last call, and time for it.
func (c *tcpConn) callAgain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !now.Before(c.end) || !hasUnread(c.conn) {
		return false
	}
	c.last = now.Add(lastCall)
	c.conn.SetReadDeadline(c.last)
	return true
}

// hasUnread reports whether octets wait in the socket (SIOCINQ of tcp(7)).
func hasUnread(conn net.Conn) bool {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	unread := 0
	err = raw.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
	return err == nil && unread > 0
}

// readUntil sets the read deadline, unless stopReading did, and reports whether there is time left.
func (c *tcpConn) readUntil(deadline time.Time) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() {
		return time.Now().Before(c.last)
	}
	c.conn.SetReadDeadline(deadline)
	return true
}

// wasAsked ends the last call: who has an answer sees the end after it, and asks the next one elsewhere.
func (c *tcpConn) wasAsked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() {
		c.last = time.Now()
	}
}

// serve reads until the client sends no more, or is too slow, or we stop; then
// it waits until all is answered: a client may close its half after the last
// query (RFC 7766 section 6.2.4).
func (c *tcpConn) serve() {
	defer c.queries.Wait()
	in := bufio.NewReaderSize(c.conn, readSize)
	patience := c.s.cfg.FirstQuery
	for goesOn := true; goesOn && c.await(in, patience); patience = c.s.cfg.Idle {
		var whole []byte
		if buffered(in) == nil {
			var err error
			if whole, err = c.read(in); err != nil {
				return
			}
		}
		c.since = time.Now()
		c.active.Store(int64(c.since.Sub(c.s.made))) // now, not after: by then another connection may have been answered
		c.wasAsked()
		if whole != nil {
			goesOn = c.received(whole)
		}
		for wire := buffered(in); wire != nil && goesOn; wire = buffered(in) {
			goesOn = c.received(wire) && !c.broken.Load() // nobody gets what else was asked
			in.Discard(prefixSize + len(wire))
		}
		c.flush()
	}
}

const (
	prefixSize = 2 // RFC 1035 section 4.2.2
	// readSize is what is read at once: some 60 queries.
	readSize = 4096
	// flushSize is how much is gathered before it is sent.
	flushSize = 16 << 10
)

// buffered returns the next message, without its length, where it has been read already; nil: it has not, or not whole. It
// holds until something is read.
func buffered(in *bufio.Reader) []byte {
	if in.Buffered() < prefixSize {
		return nil
	}
	prefix, _ := in.Peek(prefixSize)
	size := prefixSize + int(binary.BigEndian.Uint16(prefix))
	if in.Buffered() < size {
		return nil
	}
	message, _ := in.Peek(size)
	return message[prefixSize:]
}

// await waits for the two octets of a query's length. Time passes only while no
// response is owed.
func (c *tcpConn) await(in *bufio.Reader, patience time.Duration) bool {
	for {
		deadline := c.s.made.Add(time.Duration(c.active.Load()) + patience)
		if !c.idle() {
			deadline = time.Now().Add(patience)
		} else if !time.Now().Before(deadline) {
			return false
		}
		if !c.readUntil(deadline) && in.Buffered() < 2 && !c.callAgain() {
			return false
		}
		_, err := in.Peek(2)
		switch {
		case err == nil:
			return true
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return false
		}
	}
}

// read reads a message whose length has arrived. Memory is taken as octets come,
// not as the length promises.
func (c *tcpConn) read(in *bufio.Reader) ([]byte, error) {
	c.readUntil(time.Now().Add(c.s.cfg.FirstQuery))
	var prefix [2]byte
	if _, err := io.ReadFull(in, prefix[:]); err != nil {
		return nil, err
	}
	var wire bytes.Buffer
	_, err := io.CopyN(&wire, in, int64(binary.BigEndian.Uint16(prefix[:])))
	return wire.Bytes(), err
}

// received takes one message; false: nothing that this client says is DNS. What is answered at once leaves with the next
// flush.
func (c *tcpConn) received(wire []byte) bool {
	c.tally.tcpQueries.Add(1)
	v, rcode := accept(wire)
	if v == drop {
		c.tally.dropped.Add(1)
		return len(wire) >= headerSize
	}
	x := exchange{wire: wire, client: c.client, local: c.local, proto: TCP, arrived: c.since}
	if why := c.s.access.Load().denies(c.local, c.client.Addr()); why != allowed {
		c.refuse(x, c.s.deny(x, why), why)
		return why != stranger
	}
	if v == refuse {
		c.tally.refused.Add(1)
		c.refuse(x, c.s.refuse(x, rcode), allowed)
		return true
	}
	start := len(c.out)
	q := &c.query
	response, _ := c.s.onWire(&x, q, append(c.out, 0, 0))
	query, since := q.sample(), c.since
	if response != nil {
		c.s.countResponse(response[start+prefixSize:], &c.tally)
		if w := c.s.watch.Load(); w != nil {
			w.tell(x, response[start+prefixSize:], ByWire, "")
		}
		c.gathered(response, start, query)
		return true
	}
	x.wire = slices.Clone(wire)
	c.takeSlot()
	c.pending.Add(1)
	c.asking.Add(1)
	c.queries.Go(func() {
		defer c.done()
		defer c.s.recovered(x)
		c.answer(x, query, since)
	})
	return true
}

// refuse sends the server's own response to a query; nil: none is sent.
func (c *tcpConn) refuse(x exchange, response []byte, why denial) {
	c.gather(response, newSample(x.wire))
	_, text := why.explanation()
	c.s.watch.Load().tell(x, response, ByServer, text)
}

// takeSlot waits until one of the queries before is answered, where there are MaxPipelined. What is answered does not wait.
func (c *tcpConn) takeSlot() {
	select {
	case c.slots <- struct{}{}:
	default:
		c.flush()
		c.slots <- struct{}{}
	}
}

func (c *tcpConn) done() {
	c.touch()
	c.pending.Add(-1)
	<-c.slots
}

// answer leaves its place among the queries in flight before it writes: a client
// that does not read holds up nobody but itself.
func (c *tcpConn) answer(x exchange, query sample, since time.Time) {
	buf := c.s.buffers.Get().(*[]byte)
	defer c.s.buffers.Put(buf)
	response := c.ask(x, *buf)
	c.asking.Add(-1)
	c.send(response)
	c.tally.traffic.add(time.Since(since), query.with(response))
}

func (c *tcpConn) ask(x exchange, buf []byte) []byte {
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

// gather puts the response to a query to what leaves with the next flush; nil: there is none.
func (c *tcpConn) gather(response []byte, query sample) {
	start := len(c.out)
	c.gathered(append(append(c.out, 0, 0), response...), start, query)
}

// gathered is called with what is to be sent, in which the last response, behind room for its length, begins at start.
func (c *tcpConn) gathered(out []byte, start int, query sample) {
	c.samples = append(c.samples, query.with(out[start+prefixSize:]))
	binary.BigEndian.PutUint16(out[start:], uint16(len(out)-start-prefixSize))
	if c.out = out; len(out) >= flushSize {
		c.flush()
	}
}

// flush sends what was gathered.
func (c *tcpConn) flush() {
	if len(c.out) == 0 {
		return
	}
	c.write(func() error { _, err := c.conn.Write(c.out); return err })
	c.tally.traffic.sent(c.since, c.samples)
	c.samples = c.samples[:0]
	if c.out = c.out[:0]; cap(c.out) > flushSize {
		c.out = nil // a connection does not keep what one large response took
	}
}

// send writes one response.
func (c *tcpConn) send(response []byte) {
	if response == nil {
		return
	}
	prefix := binary.BigEndian.AppendUint16(nil, uint16(len(response)))
	c.write(func() error {
		message := net.Buffers{prefix, response}
		_, err := message.WriteTo(c.conn)
		return err
	})
}

// write has one response after the other written. After one that could not be written whole the stream
// has no meaning, so the connection is closed.
func (c *tcpConn) write(responses func() error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(c.s.cfg.Write))
	if responses() != nil {
		c.s.counters.writeErrors.Add(1)
		c.broken.Store(true)
		c.conn.Close()
	}
}
