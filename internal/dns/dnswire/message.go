package dnswire

import "encoding/binary"

// A Cut says how much of a message is sent.
type Cut struct {
	End       int       // octets
	Counts    [3]uint16 // records of the answer, authority and additional sections
	Truncated bool      // so that the client must ask again for the rest
}

// SetHeader writes the counts into the header of the message that was cut, and TC where it says so. withOPT counts the OPT
// record that has come behind it.
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

const bitTC = 1 << 1 // of the third octet

// Fit returns what of a response fits limit octets: first without its additional records, which a client can do without (RFC
// 2181 section 9), then with as many records as fit. The response has one question that ends at end, and no OPT record.
func Fit(response []byte, end, limit int) Cut {
	counts := [3]uint16{count(response, 6), count(response, 8), count(response, 10)}
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

func count(message []byte, at int) uint16 { return binary.BigEndian.Uint16(message[at:]) }

// Record returns where the TTL is of the record that begins at at, and where it ends.
func Record(message []byte, at int) (ttl, end int) {
	at = NameEnd(message, at)
	return at + 4, at + 10 + int(count(message, at+8))
}

// NameEnd returns where the name at at ends, its last label or a pointer (RFC 1035 section 4.1.4) included; beyond the message: it is
// not whole there.
func NameEnd(message []byte, at int) int {
	for at < len(message) {
		switch size := int(message[at]); {
		case size == 0:
			return at + 1
		case size >= 0xc0:
			return at + 2
		case size >= 0x40: // reserved, in the same section
			return len(message) + 1
		default:
			at += 1 + size
		}
	}
	return len(message) + 1
}

// IsWhole reports whether a message has the records that its header counts, from at to its end, none of them beyond it.
func IsWhole(message []byte, at int) bool {
	if len(message) < HeaderSize {
		return false
	}
	for n := int(count(message, 6)) + int(count(message, 8)) + int(count(message, 10)); n > 0; n-- {
		if _, at = Find(message, at); at == 0 {
			return false
		}
	}
	return at == len(message)
}

// Find is Record for one that may not be whole: it returns where its data begins, and where it ends; end 0: it is not whole.
// Its owner may be a pointer to anywhere.
func Find(message []byte, at int) (data, end int) {
	if data = NameEnd(message, at) + 10; data > len(message) {
		return 0, 0
	}
	if end = data + int(count(message, data-2)); end > len(message) {
		return 0, 0
	}
	return data, end
}
