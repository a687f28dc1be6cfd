package exchange

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// idleTimeout is how long a connection without questions is kept open. A handshake costs more than
// a socket (RFC 7858 section 3.4), and servers close connections when they like.
const idleTimeout = 30 * time.Second

// maxOutbox is the maximum number of unsent bytes on a connection, for servers that do not read.
const maxOutbox = 1 << 20

// maxPending is the maximum number of questions on one connection, so that a few random draws find
// a free ID.
const maxPending = 1 << 14

// A Stream is a connection with many concurrent questions, each with its own ID, answered in any
// order (RFC 7766 section 6.2.1.1).
type Stream struct {
	conn    net.Conn
	stall   time.Duration // time after which a silent server's connection is closed
	ignored *atomic.Uint64

	wake chan struct{} // wakes the writer

	mu       sync.Mutex // guards the fields below
	pending  map[uint16]*Waiter
	outbox   []byte    // messages to write, with their length prefixes
	err      error     // why the stream ended; nil while it is open
	draining bool      // close after the last question
	lastRead time.Time // time of the last answer or of the start
	answers  int
}

// A Waiter waits for the response to a question on a stream.
type Waiter struct {
	Query   []byte
	Spent   *Spending
	Deliver func(*dns.Msg, error) // called once, unless the waiter is ended first; must not block
	// DeliverWire is called instead of Deliver for a response that Simple accepts. nil disables it.
	DeliverWire func(dnswire.Response)
	// ended is called when the stream ends, and reports whether the waiter moved to another stream.
	// It may be nil.
	ended  func(error) bool
	isOver atomic.Bool // ended or delivered

	id      uint16  // guarded by the stream's lock
	on      *Stream // guarded by the channel that it waits in
	isAgain bool    // it was moved from a connection that ended
}

// settle ends the waiter. It reports whether the caller was the first to do so.
func (w *Waiter) settle() bool { return w.isOver.CompareAndSwap(false, true) }

// done delivers the result to the waiter.
func (w *Waiter) done(m *dns.Msg, err error) {
	if err != nil && w.ended != nil && w.ended(err) {
		return
	}
	if w.settle() {
		w.Deliver(m, err)
	}
}

func newStream(conn net.Conn, stall time.Duration, draining bool, ignored *atomic.Uint64) *Stream {
	s := &Stream{
		conn:     conn,
		stall:    stall,
		ignored:  ignored,
		wake:     make(chan struct{}, 1),
		pending:  make(map[uint16]*Waiter),
		draining: draining,
		lastRead: time.Now(),
	}
	s.setReadDeadlineLocked()
	return s
}

// exchange sends a query and waits for its response. After ErrStreamEnded there will be no
// response.
func (s *Stream) exchange(ctx context.Context, query []byte) (*dns.Msg, error) {
	type response struct {
		msg *dns.Msg
		err error
	}
	got := make(chan response, 1)
	w := &Waiter{Query: query, Deliver: func(m *dns.Msg, err error) { got <- response{m, err} }}
	s.Begin(w)
	select {
	case r := <-got:
		return r.msg, r.err
	case <-ctx.Done():
		s.End(w)
		return nil, ctx.Err()
	}
}

// Begin sends the query. It does not block.
func (s *Stream) Begin(w *Waiter) {
	if err := s.add(w); err != nil {
		w.done(nil, err)
		return
	}
	select {
	case s.wake <- struct{}{}:
		runtime.Gosched() // lets the writer run before the caller blocks in the kernel with its P
	default: // already woken
	}
}

// add assigns an ID to the waiter's query and adds it to the outbox.
func (s *Stream) add(w *Waiter) error {
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
	setID(w.Query, w.id)
	s.pending[w.id] = w
	s.outbox = append(binary.BigEndian.AppendUint16(s.outbox, uint16(len(w.Query))), w.Query...)
	if len(s.pending) == 1 {
		s.setReadDeadlineLocked()
	}
	return nil
}

// End removes the waiter. It returns false if Deliver was called or is about to be called.
func (s *Stream) End(w *Waiter) bool {
	isFirst := w.settle()
	s.remove(w)
	return isFirst
}

// remove removes the waiter and reports whether it was pending.
func (s *Stream) remove(w *Waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isPending := s.pending[w.id] == w
	if isPending {
		delete(s.pending, w.id)
	}
	s.restLocked()
	return isPending
}

// restLocked is called when the last question may have ended.
func (s *Stream) restLocked() {
	switch {
	case len(s.pending) > 0 || s.err != nil:
	case s.draining:
		s.wakeReader()
	default:
		s.setReadDeadlineLocked()
	}
}

// wakeReader makes read end the stream, unless a new question comes first. Only read closes the
// connection, and without the lock: the TLS close_notify can take 5 s if the peer does not read
// (crypto/tls, closeNotify).
func (s *Stream) wakeReader() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) }

// write sends the contents of the outbox in as few writes as possible, until the stream ends.
func (s *Stream) write() {
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
			s.fail(err) // the message may be partly sent
			return
		}
	}
}

// read delivers the server's messages until the stream ends, and then closes the connection.
func (s *Stream) read() {
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

// deliver passes a response to its waiter. A response without a waiter is late. Any other message
// that fits no question is ignored and counted.
func (s *Stream) deliver(msg []byte) {
	s.mu.Lock()
	var w *Waiter
	if len(msg) >= headerSize {
		w = s.pending[binary.BigEndian.Uint16(msg)]
	}
	if w != nil {
		w.Spent.add(len(msg)) // charges the question while it waits
	}
	s.mu.Unlock()
	if w == nil {
		return
	}
	if w.DeliverWire != nil {
		if r, ok := Simple(w.Query, msg); ok {
			if s.remove(w) {
				s.count()
				if w.settle() {
					w.DeliverWire(r)
				}
			}
			return
		}
	}
	response, err := decodeStream(w.Query, msg)
	if err != nil {
		s.ignored.Add(1)
		return
	}
	if s.remove(w) {
		s.count()
		w.done(response, nil)
	}
}

// count records an answer. Other messages do not prove that the server is alive.
func (s *Stream) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	s.lastRead = time.Now()
	s.setReadDeadlineLocked()
}

// setReadDeadlineLocked sets the deadline to the stall time while a question is pending, and to the
// idle time otherwise. After the stream has ended, the reader stays woken.
func (s *Stream) setReadDeadlineLocked() {
	if s.err != nil {
		return
	}
	patience := idleTimeout
	if len(s.pending) > 0 || s.draining {
		patience = s.stall
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(patience)) // fails only on a closed connection
}

// fail fails all questions on the connection and makes read close it.
func (s *Stream) fail(err error) {
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
	case s.wake <- struct{}{}: // makes the writer end
	default:
	}
	for _, w := range pending {
		w.done(nil, cause)
	}
}

// drain ends the stream after its last waiter.
func (s *Stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.restLocked()
}

// Ended reports whether the connection accepts no more questions.
func (s *Stream) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// ping sends a question that every nameserver answers at once.
func (s *Stream) ping(ctx context.Context) error {
	query, err := RootQuestion().wire(Padded, DefaultUDPSize)
	if err == nil {
		_, err = s.exchange(ctx, query)
	}
	return err
}

// wasUseful reports whether there were answers besides the one to the first ping.
func (s *Stream) wasUseful() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers > 1
}

// WasHeard reports whether an answer arrived since the given time.
func (s *Stream) WasHeard(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lastRead.Before(since)
}

// silentFor returns the time since the last answer.
func (s *Stream) silentFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.lastRead)
}

func (s *Stream) causeLocked() error { return fmt.Errorf("%w: %w", ErrStreamEnded, s.err) }
