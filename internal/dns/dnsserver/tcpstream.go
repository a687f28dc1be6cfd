package dnsserver

import (
	"encoding/binary"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// write sends complete responses. What the client does not accept now is queued and sent in order.
// Any goroutine may call it.
func (c *tcpConn) write(responses []byte, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 || c.isBroken || len(responses) == 0 {
		return
	}
	sent := 0
	if len(c.unsent) == 0 {
		sent = c.sendLocked(responses)
	}
	if c.isBroken || sent == len(responses) {
		return
	}
	if len(c.unsent) == 0 {
		c.sending = now
	}
	c.unsent = append(c.unsent, slices.Clone(responses[sent:]))
}

// sendUnsentLocked sends queued data as far as the client accepts it. Each write has Config.Write
// to complete.
func (c *tcpConn) sendUnsentLocked(now time.Time) {
	for len(c.unsent) > 0 && !c.isBroken {
		first := c.unsent[0]
		sent := c.sendLocked(first)
		if sent < len(first) {
			c.unsent[0] = first[sent:]
			return
		}
		c.unsent = slices.Delete(c.unsent, 0, 1)
		c.sending = now
	}
}

// sendLocked sends as much as the socket accepts and returns the amount. If a response cannot be
// written completely because of an error, the stream is corrupt and the connection is marked as
// broken.
func (c *tcpConn) sendLocked(octets []byte) (sent int) {
	for sent < len(octets) {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(octets[sent:]))),
			uintptr(len(octets)-sent), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			sent += int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			return sent
		default:
			c.breakLocked()
			return sent
		}
	}
	return sent
}

// breakLocked marks a connection as broken because it cannot be written to.
func (c *tcpConn) breakLocked() {
	c.s.counters.writeErrors.Add(1)
	c.isBroken, c.unsent = true, nil
}

// evict ends the connection; its loop closes it. Any goroutine may call it.
func (c *tcpConn) evict() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isBroken, c.unsent = true, nil
	if c.fd >= 0 {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // wakes the loop
	}
}

// detach invalidates the descriptor and returns it, or -1 if it was detached before. owed is the
// number of queries that are still being answered.
func (c *tcpConn) detach() (fd, owed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fd, c.fd = c.fd, -1
	c.unsent = nil
	return fd, c.pending
}

const (
	prefixSize = 2 // RFC 1035 section 4.2.2
	// readSize is the size of one read: about 60 queries.
	readSize = 4096
	// flushSize is the amount of output collected before it is sent, and the maximum buffer that an
	// idle connection keeps.
	flushSize = 16 << 10
)

// frames holds received data of messages that are incomplete or not handled yet. Memory grows with
// the received data, not with the announced length. The zero value is empty.
type frames struct{ rest []byte }

// join returns the kept data followed by data. The result is valid until keep is called.
func (f *frames) join(data []byte) []byte {
	if len(f.rest) == 0 {
		return data
	}
	f.rest = append(f.rest, data...)
	return f.rest
}

// keep keeps left, which is the end of the result of join.
func (f *frames) keep(left []byte) {
	if cap(f.rest) > flushSize && len(left) <= flushSize {
		f.rest = nil
	}
	f.rest = append(f.rest[:0], left...)
}

// nextMessage returns the first message without its length prefix, and the bytes after it. ok is
// false if the message is incomplete.
func nextMessage(octets []byte) (message, left []byte, ok bool) {
	if len(octets) < prefixSize {
		return nil, octets, false
	}
	end := prefixSize + int(binary.BigEndian.Uint16(octets))
	if len(octets) < end {
		return nil, octets, false
	}
	return octets[prefixSize:end], octets[end:], true
}
