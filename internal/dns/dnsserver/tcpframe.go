package dnsserver

import "encoding/binary"

const (
	prefixSize = 2 // RFC 1035 section 4.2.2
	// readSize is what is read at once: some 60 queries.
	readSize = 4096
	// flushSize is how much is gathered before it is sent, and the most that a connection keeps for what comes later.
	flushSize = 16 << 10
)

// frames holds what a TCP client has sent of messages that are not whole, or not taken yet. Memory is taken as octets come, not as
// a length promises. The zero value has none.
type frames struct{ rest []byte }

// join returns what was kept, followed by data. It holds until keep.
func (f *frames) join(data []byte) []byte {
	if len(f.rest) == 0 {
		return data
	}
	f.rest = append(f.rest, data...)
	return f.rest
}

// keep keeps left, which is the end of what join has returned.
func (f *frames) keep(left []byte) {
	if cap(f.rest) > flushSize && len(left) <= flushSize {
		f.rest = nil
	}
	f.rest = append(f.rest[:0], left...)
}

// nextMessage returns the first message of octets, without its length, and what is left behind it; false: it is not whole.
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
