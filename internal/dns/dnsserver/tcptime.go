package dnsserver

import (
	"time"

	"golang.org/x/sys/unix"
)

// lastCall is how long a draining connection may still send a query. A client that has connected
// sends its query within a round trip. If a connection is closed with unread data, the kernel
// resets it and the data is lost. The time is extended while data is unread, up to longestCall,
// because the loop may not have had CPU time.
const (
	lastCall    = 100 * time.Millisecond
	longestCall = time.Second
)

// lastCall makes the connection end after the next query, or when none comes in time, and all
// queries read so far are answered.
func (c *tcpConn) lastCall(now time.Time) { c.last, c.end = now.Add(lastCall), now.Add(longestCall) }

// deadline returns the time at which the connection has timed out or must be checked again. ok is
// false if it is closed. A client times out if it does not read, has sent a partial query, or is
// idle with nothing pending.
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
		return now.Add(cfg.Write / 4), true // the client may not accept the response
	}
	timeout := cfg.Idle
	if !c.hasAsked {
		timeout = cfg.FirstQuery
	}
	return c.s.made.Add(time.Duration(c.active.Load()) + timeout), true
}

// expire ends a connection that has reached its deadline.
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

// hasUnread reports whether the socket has unread data (SIOCINQ of tcp(7)).
func hasUnread(fd int) bool {
	unread, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
	return err == nil && unread > 0
}
