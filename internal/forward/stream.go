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

	writing sync.Mutex // held while a message is written: messages must not mix

	mu       sync.Mutex // guards what follows
	pending  map[uint16]*waiter
	err      error     // why it ended; nil while it has not
	draining bool      // it ends with the last question
	lastRead time.Time // or when it was made
	answers  int
}

// A waiter waits for the response to a question on a stream.
type waiter struct {
	query    []byte
	spent    *spending
	response chan *dns.Msg // closed without a value when the stream ends
}

func newStream(conn net.Conn, stall time.Duration, draining bool, ignored *atomic.Uint64) *stream {
	s := &stream{
		conn:     conn,
		stall:    stall,
		ignored:  ignored,
		pending:  make(map[uint16]*waiter),
		draining: draining,
		lastRead: time.Now(),
	}
	s.setReadDeadlineLocked()
	return s
}

// exchange sends query, whose ID it sets, and waits for the response to it. An
// error that is errStreamEnded means that there is none, and never will be.
func (s *stream) exchange(ctx context.Context, query []byte, spent *spending) (*dns.Msg, error) {
	w := &waiter{query: query, spent: spent, response: make(chan *dns.Msg, 1)}
	id, err := s.add(w)
	if err != nil {
		return nil, err
	}
	defer s.remove(id, w)
	if err := s.write(query); err != nil {
		s.end(err) // half a message may be on its way
		return nil, s.cause()
	}
	select {
	case msg, ok := <-w.response:
		if !ok {
			return nil, s.cause()
		}
		return msg, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *stream) add(w *waiter) (id uint16, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return 0, s.causeLocked()
	case len(s.pending) >= maxPending:
		return 0, errStreamFull
	}
	for id = newID(); s.pending[id] != nil; {
		id = newID()
	}
	setID(w.query, id)
	s.pending[id] = w
	if len(s.pending) == 1 {
		s.setReadDeadlineLocked()
	}
	return id, nil
}

func (s *stream) remove(id uint16, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[id] == w {
		delete(s.pending, id)
	}
	s.restLocked()
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

func (s *stream) write(query []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.stall)); err != nil {
		return err
	}
	return writeMessage(s.conn, query)
}

// read gives out what the server sends until the stream ends, and closes it.
func (s *stream) read() {
	defer s.conn.Close()
	for {
		msg, err := readMessage(s.conn)
		if err != nil {
			s.end(err)
			return
		}
		s.deliver(msg)
	}
}

// deliver gives a response to who asked. One that nobody waits for any more is
// late; any other that fits no question is ignored, and counted.
func (s *stream) deliver(msg []byte) {
	s.mu.Lock()
	s.lastRead = time.Now()
	s.setReadDeadlineLocked()
	var w *waiter
	if len(msg) >= headerSize {
		w = s.pending[binary.BigEndian.Uint16(msg)]
	}
	s.mu.Unlock()
	if w == nil {
		return
	}
	w.spent.add(len(msg))
	response, err := decodeStream(w.query, msg)
	if err != nil {
		s.ignored.Add(1)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := binary.BigEndian.Uint16(msg)
	if s.pending[id] == w {
		delete(s.pending, id)
		w.response <- response
		s.answers++
		s.restLocked()
	}
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

// end fails all questions on the connection, and makes read close it.
func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	s.wakeReader()
	for id, w := range s.pending {
		delete(s.pending, id)
		close(w.response)
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
		_, err = s.exchange(ctx, query, nil)
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

func (s *stream) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.causeLocked()
}

func (s *stream) causeLocked() error { return fmt.Errorf("%w: %w", errStreamEnded, s.err) }
