package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A Channel is the way to a DNS over TLS server (RFC 7858). It has one connection at a time, which
// all questions share. A question makes the connection if there is no open one. A Channel never
// falls back to plain DNS.
type Channel struct {
	dialer  *Dialer
	address string
	config  *tls.Config

	mu      sync.Mutex // guards what follows
	stream  *Stream    // the connection that new questions take, nil when none
	dial    *dial      // the one being made, nil when none
	waiting []*Waiter  // for a connection
	retired bool       // no connection is kept beyond its questions
	closed  bool
}

// alpn is DNS over TLS's name for itself (RFC 7858, registered with IANA): a server that speaks other protocols at the same port
// knows from it what is to come. One that has never heard of ALPN ignores it.
const alpn = "dot"

// keptSessions is the number of sessions that new connections can resume, without certificates and
// signatures (RFC 8446 section 2.2). It is the number of connections that may begin before the
// first one brings a new ticket. crypto/tls does not resume a session whose certificate it would
// reject now.
const keptSessions = 4

// A dial is a connection being made.
type dial struct{ cancel context.CancelFunc }

// TLS returns the way to a DNS over TLS server. The first question makes the connection.
func (d *Dialer) TLS(s nameserver.Server) *Channel {
	name := s.Name
	if name == "" {
		// crypto/tls checks an address in ServerName against the certificate's IP
		// addresses, and does not send it as SNI.
		name = s.Addr.Addr().WithZone("").String()
	}
	return &Channel{
		dialer:  d,
		address: s.Addr.String(),
		config: &tls.Config{
			ServerName: name, RootCAs: d.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{alpn},
			ClientSessionCache: tls.NewLRUClientSessionCache(keptSessions),
		},
	}
}

// Begin sends the query. It does not block. It makes a connection if there is no open one. A server
// may close an idle connection at any time, also while a query is on its way (RFC 7766 section
// 6.2.4): then the query is sent once more.
func (c *Channel) Begin(w *Waiter) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		if w.settle() {
			w.Deliver(nil, ErrClosed)
		}
		return
	}
	s := c.stream
	if s == nil || s.Ended() {
		c.waiting = append(c.waiting, w)
		if c.dial == nil {
			c.startDialLocked()
		}
		c.mu.Unlock()
		return
	}
	w.on, w.ended = s, nil
	if !w.isAgain {
		w.ended = func(err error) (goesOn bool) { return c.again(w, err) }
	}
	c.mu.Unlock()
	s.Begin(w)
}

// again sends a question once more, whose connection, which was there before, has ended.
func (c *Channel) again(w *Waiter, err error) (goesOn bool) {
	if !errors.Is(err, ErrStreamEnded) {
		return false
	}
	w.isAgain, w.ended = true, nil
	w.Query = slices.Clone(w.Query) // the reader of the stream that ended may still look at it
	c.Begin(w)
	return true
}

// End forgets the waiter. It reports false if the waiter was called, or is about to be.
func (c *Channel) End(w *Waiter) bool {
	isFirst := w.settle()
	c.mu.Lock()
	on := w.on
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.mu.Unlock()
	if on != nil {
		on.remove(w)
	}
	return isFirst
}

// startDialLocked makes a connection. It goes on if the waiters give up: later questions will use
// the connection.
func (c *Channel) startDialLocked() {
	ctx, cancel := context.WithTimeout(context.Background(), c.dialer.Timeout)
	c.dial = &dial{cancel}
	c.dialer.Work.Go(func() {
		defer cancel()
		defer c.dialer.Recovered(func(err error) { c.dialed(nil, err) })
		dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: c.config}
		conn, err := dialer.DialContext(ctx, "tcp", c.address)
		c.dialed(conn, err)
	})
}

// dialed gives the connection, or the error, to all waiters.
func (c *Channel) dialed(conn net.Conn, err error) {
	c.mu.Lock()
	c.dial = nil
	waiting := c.waiting
	c.waiting = nil
	var s *Stream
	switch {
	case err != nil:
	case c.closed:
		_ = conn.Close() // nothing was sent on it
		err = ErrClosed
	default:
		c.dialer.shook(conn.(*tls.Conn))
		s = newStream(conn, c.dialer.Timeout, c.retired, &c.dialer.Ignored)
		if !c.retired {
			c.stream = s
		}
		for _, w := range waiting {
			w.on, w.ended = s, nil
		}
		c.dialer.Work.Go(func() {
			defer c.dialer.Recovered(s.fail)
			s.read()
		})
	}
	c.mu.Unlock()
	for _, w := range waiting {
		if err != nil {
			w.done(nil, err)
		} else {
			s.Begin(w)
		}
	}
}

// Suspect is called after a question had no response for the given time. If nothing came over the
// connection for half of that, it may be dead: a NAT forgot it, for example. The other half may
// have gone into the handshake. New questions get a new connection, and the old one keeps its
// waiters.
func (c *Channel) Suspect(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil && c.stream.silentFor() >= after/2 {
		c.stream.drain()
		c.stream = nil
	}
}

// Retire lets the connection, and any that is made later, end with its last
// question.
func (c *Channel) Retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	if c.stream != nil {
		c.stream.drain()
		c.stream = nil
	}
}

// Close ends everything at once.
func (c *Channel) Close() {
	c.mu.Lock()
	c.closed = true
	if c.dial != nil {
		c.dial.cancel()
	}
	s := c.stream
	c.stream = nil
	c.mu.Unlock()
	if s != nil {
		s.fail(ErrClosed) // waiters may begin again, which takes the lock
	}
}
