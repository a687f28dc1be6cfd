package exchange

import (
	"context"
	"encoding/binary"
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

// A Stream is one connection with many questions on it at a time, each with its
// own ID, answered in any order (RFC 7766 section 6.2.1.1).
type Stream struct {
	conn    net.Conn
	stall   time.Duration // a server that says nothing for so long has the connection closed
	ignored *atomic.Uint64

	wake chan struct{} // of the writer

	mu       sync.Mutex // guards what follows
	pending  map[uint16]*Waiter
	outbox   []byte    // messages to be written, with their lengths
	err      error     // why it ended; nil while it has not
	draining bool      // it ends with the last question
	lastRead time.Time // or when it was made
	answers  int
}

// A Waiter waits for the response to a question on a stream.
type Waiter struct {
	Query   []byte
	Spent   *Spending
	Deliver func(*dns.Msg, error) // called once, unless the waiter is ended before; must not block
	ended   func(error) bool      // called when the stream ends; reports whether the waiter moved to another stream. nil: it did not
	isOver  atomic.Bool           // ended or delivered

	id      uint16  // guarded by the stream's lock
	on      *Stream // guarded by the channel that it waits in
	isAgain bool    // its first connection has ended
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

// exchange sends a query and waits for its response. On ErrStreamEnded there will be no response.
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
	default: // it has been woken
	}
}

// add gives the waiter's query an ID, and puts it into the outbox.
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

// End forgets the waiter. It reports false if the waiter was called, or is about to be.
func (s *Stream) End(w *Waiter) bool {
	isFirst := w.settle()
	s.remove(w)
	return isFirst
}

// remove reports whether the waiter was waiting.
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

// restLocked is called when a question may have been the last one.
func (s *Stream) restLocked() {
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
func (s *Stream) wakeReader() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) }

// write sends the contents of the outbox, in as few writes as possible, until the stream ends.
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
			s.fail(err) // half a message may be on its way
			return
		}
	}
}

// read gives out what the server sends until the stream ends, and closes it.
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

// deliver gives a response to its waiter. A response without a waiter is late. Any other message
// that fits no question is ignored and counted.
func (s *Stream) deliver(msg []byte) {
	s.mu.Lock()
	var w *Waiter
	if len(msg) >= headerSize {
		w = s.pending[binary.BigEndian.Uint16(msg)]
	}
	if w != nil {
		w.Spent.add(len(msg)) // which is the question's as long as it waits
	}
	s.mu.Unlock()
	if w == nil {
		return
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

// count records an answer. Other messages of the server are no sign of life.
func (s *Stream) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	s.lastRead = time.Now()
	s.setReadDeadlineLocked()
}

// setReadDeadlineLocked gives the server the stall time while something is asked, the
// idle time while nothing is. After the end the reader stays woken.
func (s *Stream) setReadDeadlineLocked() {
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
	case s.wake <- struct{}{}: // the writer ends
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

// Ended reports whether the connection takes no more questions.
func (s *Stream) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// ping asks what every nameserver answers at once.
func (s *Stream) ping(ctx context.Context) error {
	query, err := RootQuestion().wire(Padded, DefaultUDPSize)
	if err == nil {
		_, err = s.exchange(ctx, query)
	}
	return err
}

// wasOfUse reports whether there were more answers than that to the first ping.
func (s *Stream) wasOfUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers > 1
}

// WasHeard reports whether anything came since then.
func (s *Stream) WasHeard(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lastRead.Before(since)
}

// silentFor is how long nothing came.
func (s *Stream) silentFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.lastRead)
}

func (s *Stream) causeLocked() error { return fmt.Errorf("%w: %w", ErrStreamEnded, s.err) }
