package dnsserver

import (
	"time"

	"golang.org/x/sys/unix"
)

// lastCall is how long a connection that is being drained may still ask: who has connected asks within a round trip, and
// what is unread when a connection is closed resets it, and is lost with it.
// It is given again while something is unread, up to longestCall: the loop may have had no processor.
const (
	lastCall    = 100 * time.Millisecond
	longestCall = time.Second
)

// lastCall has the connection end after the next query, or when none comes soon, and all that were read are answered.
func (c *tcpConn) lastCall(now time.Time) { c.last, c.end = now.Add(lastCall), now.Add(longestCall) }

// deadline is when the connection has taken too long, or is to be looked after again; false: it is closed. Time passes for a client
// that does not read, has sent a part of a query, or asks nothing and is owed nothing.
func (c *tcpConn) deadline(now time.Time) (due time.Time, ok bool) {
	cfg := &c.s.cfg
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.fd < 0:
		return due, false
	case len(c.unsent) > 0:
		return c.sending.Add(cfg.Write), true
	case c.isReading && !c.last.IsZero():
		return c.last, true
	case c.isReading && !c.partial.IsZero():
		return c.partial.Add(cfg.FirstQuery), true
	case c.pending > 0:
		return now.Add(cfg.Write / 4), true // its response may not be taken
	}
	patience := cfg.Idle
	if !c.hasAsked {
		patience = cfg.FirstQuery
	}
	return c.s.made.Add(time.Duration(c.active.Load()) + patience), true
}

// expire ends what has lasted until its deadline.
func (c *tcpConn) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.unsent) > 0:
		c.breakLocked()
	case c.isReading && !c.last.IsZero() && now.Before(c.end) && hasUnread(c.fd):
		c.last = now.Add(lastCall)
	default:
		c.isReading = false
	}
}

// hasUnread reports whether octets wait in the socket (SIOCINQ of tcp(7)).
func hasUnread(fd int) bool {
	unread, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
	return err == nil && unread > 0
}
