package dnswire

import "encoding/binary"

// A Cut describes the part of a message that is sent.
type Cut struct {
	End       int       // size in bytes
	Counts    [3]uint16 // records of the answer, authority and additional sections
	Truncated bool      // the client must query again for the rest
}

// SetHeader writes the counts, and TC if the message is truncated, into the header of the message.
// withOPT adds one for an OPT record appended to it.
func (c Cut) SetHeader(message []byte, withOPT bool) {
	if withOPT {
		c.Counts[2]++
	}
	for i, n := range c.Counts {
		binary.BigEndian.PutUint16(message[6+2*i:], n)
	}
	if c.Truncated {
		message[2] |= bitTC
	}
}

const bitTC = 1 << 1 // of the third byte

// Fit returns the part of a response that fits in limit bytes. It first drops the additional
// records, which a client can do without (RFC 2181 section 9), and then keeps as many records as
// fit. The response has one question, which ends at end, and no OPT record.
func Fit(response []byte, end, limit int) Cut {
	counts := [3]uint16{count16(response, 6), count16(response, 8), count16(response, 10)}
	if len(response) <= limit {
		return Cut{End: len(response), Counts: counts}
	}
	cut := Cut{End: end}
	for section, n := range counts[:2] {
		for range n {
			_, next := Record(response, cut.End)
			if next > limit {
				cut.Truncated = true
				return cut
			}
			cut.End = next
			cut.Counts[section]++
		}
	}
	return cut
}

func count(message []byte, at int) int { return int(count16(message, at)) }

func count16(message []byte, at int) uint16 { return binary.BigEndian.Uint16(message[at:]) }

// Record returns the offsets of the TTL and of the end of the record at offset at.
func Record(message []byte, at int) (ttl, end int) {
	at = NameEnd(message, at)
	return at + 4, at + 10 + count(message, at+8)
}

// NameEnd returns the offset of the end of the name at offset at, including its last label or a
// pointer (RFC 1035 section 4.1.4). The result is beyond the message if the name is incomplete.
func NameEnd(message []byte, at int) int {
	for at < len(message) {
		switch size := int(message[at]); {
		case size == 0:
			return at + 1
		case size >= 0xc0:
			return at + 2
		case size >= 0x40: // reserved by the same section
			return len(message) + 1
		default:
			at += 1 + size
		}
	}
	return len(message) + 1
}

// IsWhole reports whether the records from offset at to the end of the message are complete, and
// whether their number matches the header.
func IsWhole(message []byte, at int) bool {
	return len(message) >= HeaderSize && recordsEnd(message, at) == len(message)
}

// recordsEnd returns the end of the records that the header counts, which start at offset at, or 0
// if one is incomplete.
func recordsEnd(message []byte, at int) int {
	for n := count(message, 6) + count(message, 8) + count(message, 10); n > 0; n-- {
		if _, at = Find(message, at); at == 0 {
			return 0
		}
	}
	return at
}

// Find is Record for a record that may be incomplete. It returns the offsets of the beginning and
// the end of its data, or end 0 if it is incomplete. Its owner may be a pointer to anywhere.
func Find(message []byte, at int) (data, end int) {
	if data = NameEnd(message, at) + 10; data > len(message) {
		return 0, 0
	}
	if end = data + count(message, data-2); end > len(message) {
		return 0, 0
	}
	return data, end
}
