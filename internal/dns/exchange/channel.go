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

// A Channel connects to a DNS over TLS server (RFC 7858). It has one connection at a time, which
// all questions share. A question opens the connection if none is open. A Channel never falls back
// to plain DNS.
type Channel struct {
	dialer  *Dialer
	address string
	config  *tls.Config

	mu      sync.Mutex // guards the fields below
	stream  *Stream    // connection for new questions; nil if there is none
	dial    *dial      // connection being made; nil if there is none
	waiting []*Waiter  // waiting for a connection
	retired bool       // close each connection after its last question
	closed  bool
}

// alpn is the ALPN ID of DNS over TLS (RFC 7858, registered with IANA). It tells a server that
// speaks several protocols on the port which one to use. Servers without ALPN support ignore it.
const alpn = "dot"

// keptSessions is the number of sessions that new connections can resume without certificates and
// signatures (RFC 8446 section 2.2). It limits how many connections can begin before the first one
// brings a new ticket. crypto/tls does not resume a session whose certificate it would reject now.
const keptSessions = 4

// A dial is an attempt to connect.
type dial struct{ cancel context.CancelFunc }

// TLS returns the Channel to a DNS over TLS server. The first question opens the connection.
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

// Begin sends the query. It does not block. It opens a connection if none is open. A server may
// close an idle connection at any time, even while a query is in transit (RFC 7766 section 6.2.4);
// then the query is sent once more.
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
		w.ended = func(err error) (continues bool) { return c.again(w, err) }
	}
	c.mu.Unlock()
	s.Begin(w)
}

// again resends a question once if the connection that it was sent on had been open before and has
// ended.
func (c *Channel) again(w *Waiter, err error) (continues bool) {
	if !errors.Is(err, ErrStreamEnded) {
		return false
	}
	w.isAgain, w.ended = true, nil
	w.Query = slices.Clone(w.Query) // the reader of the ended stream may still use the old slice
	c.Begin(w)
	return true
}

// End removes the waiter. It returns false if Deliver was called or is about to be called.
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

// startDialLocked starts a connection attempt. The attempt continues even if all waiters give up,
// because later questions use the connection.
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

// dialed passes the connection or the error to all waiters.
func (c *Channel) dialed(conn net.Conn, err error) {
	c.mu.Lock()
	c.dial = nil
	waiting := c.waiting
	c.waiting = nil
	var s *Stream
	switch {
	case err != nil:
	case c.closed:
		_ = conn.Close() // no query was sent on it
		err = ErrClosed
	default:
		c.dialer.countHandshake(conn.(*tls.Conn))
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

// Suspect is called when a question got no response within the given time. If the connection was
// silent for half of that, it may be dead, for example because a NAT dropped its state. (The other
// half may have been the handshake.) New questions then get a new connection, and the old one keeps
// its waiters.
func (c *Channel) Suspect(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil && c.stream.silentFor() >= after/2 {
		c.stream.drain()
		c.stream = nil
	}
}

// Retire closes the connection, and any later one, after its last question.
func (c *Channel) Retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	if c.stream != nil {
		c.stream.drain()
		c.stream = nil
	}
}

// Close closes the connection at once and fails all questions.
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
		s.fail(ErrClosed) // without the lock, because waiters may call Begin
	}
}
