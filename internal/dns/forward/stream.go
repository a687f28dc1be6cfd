package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// idleTimeout is how long a connection without questions is kept. A handshake
// costs more than a socket (RFC 7858 section 3.4), and servers close theirs when
// they like.
const idleTimeout = 30 * time.Second

// maxOutbox bounds the unsent octets of a connection, for servers that do not read.
const maxOutbox = 1 << 20

// maxPending bounds the questions on one connection, so that a free ID is found
// in a few draws.
const maxPending = 1 << 14

var (
	errStreamEnded = errors.New("connection ended")
	errStreamFull  = errors.New("too many questions on one connection")
)

// A stream is one connection with many questions on it at a time, each with its
// own ID, answered in any order (RFC 7766 section 6.2.1.1).
type stream struct {
	conn    net.Conn
	stall   time.Duration // a server that says nothing for so long has the connection closed
	ignored *atomic.Uint64

	wake chan struct{} // of the writer

	mu       sync.Mutex // guards what follows
	pending  map[uint16]*waiter
	outbox   []byte    // messages to be written, with their lengths
	err      error     // why it ended; nil while it has not
	draining bool      // it ends with the last question
	lastRead time.Time // or when it was made
	answers  int
}

// A waiter waits for the response to a question on a stream.
type waiter struct {
	query   []byte
	spent   *spending
	deliver func(*dns.Msg, error) // called once, unless the waiter is ended before; must not block
	ended   func(error) bool      // called when the stream ends; reports whether the waiter moved to another stream. nil: it did not
	isOver  atomic.Bool           // ended or delivered

	id      uint16  // guarded by the stream's lock
	on      *stream // guarded by the channel that it waits in
	isAgain bool    // its first connection has ended
}

// settle ends the waiter. It reports whether the caller was the first to do so.
func (w *waiter) settle() bool { return w.isOver.CompareAndSwap(false, true) }

// done delivers the result to the waiter.
func (w *waiter) done(m *dns.Msg, err error) {
	if err != nil && w.ended != nil && w.ended(err) {
		return
	}
	if w.settle() {
		w.deliver(m, err)
	}
}

func newStream(conn net.Conn, stall time.Duration, draining bool, ignored *atomic.Uint64) *stream {
	s := &stream{
		conn:     conn,
		stall:    stall,
		ignored:  ignored,
		wake:     make(chan struct{}, 1),
		pending:  make(map[uint16]*waiter),
		draining: draining,
		lastRead: time.Now(),
	}
	s.setReadDeadlineLocked()
	return s
}

// exchange sends a query and waits for the response to it. An error that is errStreamEnded means that there is none, and never
// will be.
func (s *stream) exchange(ctx context.Context, query []byte) (*dns.Msg, error) {
	type response struct {
		msg *dns.Msg
		err error
	}
	got := make(chan response, 1)
	w := &waiter{query: query, deliver: func(m *dns.Msg, err error) { got <- response{m, err} }}
	s.begin(w)
	select {
	case r := <-got:
		return r.msg, r.err
	case <-ctx.Done():
		s.end(w)
		return nil, ctx.Err()
	}
}

func (s *stream) begin(w *waiter) {
	if err := s.add(w); err != nil {
		w.done(nil, err)
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // it has been woken
	}
}

// add gives the waiter's query an ID, and puts it into the outbox.
func (s *stream) add(w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.isOver.Load():
		return nil
	case s.err != nil:
		return s.causeLocked()
	case len(s.pending) >= maxPending, len(s.outbox) >= maxOutbox:
		return errStreamFull
	}
	w.id = newID()
	for s.pending[w.id] != nil {
		w.id = newID()
	}
	setID(w.query, w.id)
	s.pending[w.id] = w
	s.outbox = append(binary.BigEndian.AppendUint16(s.outbox, uint16(len(w.query))), w.query...)
	if len(s.pending) == 1 {
		s.setReadDeadlineLocked()
	}
	return nil
}

func (s *stream) end(w *waiter) bool {
	isFirst := w.settle()
	s.remove(w)
	return isFirst
}

// remove reports whether the waiter was waiting.
func (s *stream) remove(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isPending := s.pending[w.id] == w
	if isPending {
		delete(s.pending, w.id)
	}
	s.restLocked()
	return isPending
}

// restLocked is called when a question may have been the last one.
func (s *stream) restLocked() {
	switch {
	case len(s.pending) > 0 || s.err != nil:
	case s.draining:
		s.wakeReader()
	default:
		s.setReadDeadlineLocked()
	}
}

// wakeReader makes read end the stream, unless a new question comes first. The
// connection is closed by read alone, outside the lock: the farewell of TLS may
// take 5 s to be sent to a peer that does not read (crypto/tls, closeNotify).
func (s *stream) wakeReader() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) }

// write sends the contents of the outbox, in as few writes as possible, until the stream ends.
func (s *stream) write() {
	var out []byte
	for range s.wake {
		s.mu.Lock()
		out, s.outbox = s.outbox, out[:0]
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return
		}
		err = s.conn.SetWriteDeadline(time.Now().Add(s.stall))
		if err == nil {
			_, err = s.conn.Write(out)
		}
		if err != nil {
			s.fail(err) // half a message may be on its way
			return
		}
	}
}

// read gives out what the server sends until the stream ends, and closes it.
func (s *stream) read() {
	var writer sync.WaitGroup
	writer.Go(s.write)
	defer writer.Wait()
	defer s.conn.Close()
	for {
		msg, err := readMessage(s.conn)
		if err != nil {
			s.fail(err)
			return
		}
		s.deliver(msg)
	}
}

// deliver gives a response to who asked. One that nobody waits for any more is
// late; any other that fits no question is ignored, and counted.
func (s *stream) deliver(msg []byte) {
	s.mu.Lock()
	var w *waiter
	if len(msg) >= headerSize {
		w = s.pending[binary.BigEndian.Uint16(msg)]
	}
	if w != nil {
		w.spent.add(len(msg)) // which is the question's as long as it waits
	}
	s.mu.Unlock()
	if w == nil {
		return
	}
	response, err := decodeStream(w.query, msg)
	if err != nil {
		s.ignored.Add(1)
		return
	}
	if s.remove(w) {
		s.count()
		w.done(response, nil)
	}
}

// count records an answer. Other messages of the server are no sign of life.
func (s *stream) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	s.lastRead = time.Now()
	s.setReadDeadlineLocked()
}

// setReadDeadlineLocked gives the server the stall time while something is asked, the
// idle time while nothing is. After the end the reader stays woken.
func (s *stream) setReadDeadlineLocked() {
	if s.err != nil {
		return
	}
	patience := idleTimeout
	if len(s.pending) > 0 || s.draining {
		patience = s.stall
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(patience)) // fails on a closed one only
}

// fail fails all questions on the connection, and makes read close it.
func (s *stream) fail(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	s.wakeReader()
	pending := s.pending
	s.pending = nil
	cause := s.causeLocked()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}: // the writer ends
	default:
	}
	for _, w := range pending {
		w.done(nil, cause)
	}
}

// drain ends the stream as soon as nobody waits on it.
func (s *stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.restLocked()
}

func (s *stream) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// ping asks what every nameserver answers at once.
func (s *stream) ping(ctx context.Context) error {
	query, err := rootQuestion().wire(padded, defaultUDPSize)
	if err == nil {
		_, err = s.exchange(ctx, query)
	}
	return err
}

// wasOfUse reports whether there were more answers than that to the first ping.
func (s *stream) wasOfUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers > 1
}

// wasHeard reports whether anything came since then.
func (s *stream) wasHeard(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lastRead.Before(since)
}

// silentFor is how long nothing came.
func (s *stream) silentFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.lastRead)
}

func (s *stream) causeLocked() error { return fmt.Errorf("%w: %w", errStreamEnded, s.err) }
