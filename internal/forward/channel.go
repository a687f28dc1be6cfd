package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/nameserver"
)

// A channel is the way to a DNS over TLS server (RFC 7858): one connection at a
// time, made when it is needed, shared by all questions, and made anew when it
// is gone. There is no other way: it is never downgraded to plain DNS.
type channel struct {
	address string
	config  *tls.Config
	timeout time.Duration // of a handshake, and of a server that says nothing
	work    *sync.WaitGroup
	counts  *counts
	guard   func(failed func(error)) // Forward.recovered

	mu      sync.Mutex // guards what follows
	stream  *stream    // the connection that new questions take, nil when none
	dial    *dial      // the one being made, nil when none
	retired bool       // no connection is kept beyond its questions
	closed  bool
}

// alpn is DNS over TLS's name for itself (RFC 7858, registered with IANA): a server that speaks other protocols at the same port
// knows from it what is to come. One that has never heard of ALPN ignores it.
const alpn = "dot"

// keptSessions are what the next connections begin with, instead of certificates and signatures (RFC 8446 section 2.2): as many as
// connections may be made before the first of them has brought a ticket of its own. crypto/tls takes none whose certificate would
// not be accepted now.
const keptSessions = 4

// A dial is a connection being made, and all who wait for it.
type dial struct {
	cancel context.CancelFunc
	done   chan struct{}
	stream *stream // set before done is closed
	err    error
}

func newChannel(s nameserver.Server, f *Forward) *channel {
	name := s.Name
	if name == "" {
		// crypto/tls checks an address in ServerName against the certificate's IP
		// addresses, and does not send it as SNI.
		name = s.Addr.Addr().WithZone("").String()
	}
	return &channel{
		address: s.Addr.String(),
		config: &tls.Config{
			ServerName: name, RootCAs: f.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{alpn},
			ClientSessionCache: tls.NewLRUClientSessionCache(keptSessions),
		},
		timeout: f.deadline,
		work:    &f.work,
		counts:  &f.counts,
		guard:   f.recovered,
	}
}

// exchange sends query with an ID of its own and waits for the response to it
// until ctx ends. A server may close an idle connection at any time, also while we
// write to it (RFC 7766 section 6.2.4): then the question is sent once more.
func (c *channel) exchange(ctx context.Context, query []byte, spent *spending) (*dns.Msg, error) {
	for again := false; ; again = true {
		s, used, err := c.connect(ctx)
		if err != nil {
			return nil, err
		}
		// A copy: the reader of a stream that just ended may still look at it.
		msg, err := s.exchange(ctx, slices.Clone(query), spent)
		if err == nil || again || !used || ctx.Err() != nil || !errors.Is(err, errStreamEnded) {
			return msg, err
		}
	}
}

// connect returns the connection, making it when there is none. used means that it
// was there before. Making one goes on when ctx ends: others will want it.
func (c *channel) connect(ctx context.Context) (s *stream, used bool, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, false, errClosed
	}
	if c.stream != nil && !c.stream.ended() {
		defer c.mu.Unlock()
		return c.stream, true, nil
	}
	d := c.dial
	if d == nil {
		d = c.startDialLocked()
	}
	c.mu.Unlock()
	select {
	case <-d.done:
		return d.stream, false, d.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

func (c *channel) startDialLocked() *dial {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	d := &dial{cancel: cancel, done: make(chan struct{})}
	c.dial = d
	c.work.Go(func() {
		defer cancel()
		defer c.guard(func(err error) { c.dialed(d, nil, err) })
		dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: c.config}
		conn, err := dialer.DialContext(ctx, "tcp", c.address)
		c.dialed(d, conn, err)
	})
	return d
}

func (c *channel) dialed(d *dial, conn net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial = nil
	switch {
	case err != nil:
		d.err = err
	case c.closed:
		_ = conn.Close() // nothing was sent on it
		d.err = errClosed
	default:
		c.counts.shook(conn.(*tls.Conn))
		d.stream = newStream(conn, c.timeout, c.retired, &c.counts.ignored)
		if !c.retired {
			c.stream = d.stream
		}
		c.work.Go(func() {
			defer c.guard(d.stream.end)
			d.stream.read()
		})
	}
	close(d.done)
}

// suspect is called when a question had no response for as long as after. A
// connection on which nothing came for half of that (the other half may have gone
// into making it) may be dead without knowing it, behind a NAT that forgot it: new
// questions get a new one, and the old one is left to who still waits on it.
func (c *channel) suspect(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil && c.stream.silentFor() >= after/2 {
		c.stream.drain()
		c.stream = nil
	}
}

// retire lets the connection, and any that is made later, end with its last
// question.
func (c *channel) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	if c.stream != nil {
		c.stream.drain()
		c.stream = nil
	}
}

// close ends everything at once.
func (c *channel) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.dial != nil {
		c.dial.cancel()
	}
	if c.stream != nil {
		c.stream.end(errClosed)
		c.stream = nil
	}
}
