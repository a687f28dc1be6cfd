package dnsserver

import "encoding/binary"

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
