package kubewire

import (
	"encoding/binary"
	"fmt"
)

// Wire types of protocol buffers. Kubernetes messages have no groups (3 and 4).
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// fields iterates over the fields of a message. It copies nothing: the results point into the
// message.
type fields struct {
	rest []byte
	err  error // error that ended the iteration; nil at the end of a complete message

	num   uint64 // number of the current field
	wire  uint64 // its wire type
	value uint64 // if wire is wireVarint
	bytes []byte // if wire is wireBytes
}

// each calls use for every field of message until use returns an error.
func each(message []byte, use func(f *fields) error) error {
	f := fields{rest: message}
	for f.next() {
		if err := use(&f); err != nil {
			return err
		}
	}
	return f.err
}

// next moves to the next field. It returns false at the end or if the message is malformed.
func (f *fields) next() bool {
	if f.err != nil || len(f.rest) == 0 {
		return false
	}
	var tag uint64
	if tag, f.err = f.varint(); f.err != nil {
		return false
	}
	f.num, f.wire, f.value, f.bytes = tag>>3, tag&7, 0, nil
	switch f.wire {
	case wireVarint:
		f.value, f.err = f.varint()
	case wireBytes:
		var n uint64
		if n, f.err = f.varint(); f.err == nil {
			f.bytes, f.err = f.take(n)
		}
	case wireFixed64:
		_, f.err = f.take(8)
	case wireFixed32:
		_, f.err = f.take(4)
	default:
		f.err = fmt.Errorf("%w: field %d has wire type %d", ErrMalformed, f.num, f.wire)
	}
	return f.err == nil
}

func (f *fields) varint() (uint64, error) {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		return 0, fmt.Errorf("%w: varint is cut off or longer than 64 bits", ErrMalformed)
	}
	f.rest = f.rest[n:]
	return v, nil
}

func (f *fields) take(n uint64) ([]byte, error) {
	if n > uint64(len(f.rest)) {
		return nil, fmt.Errorf("%w: field of %d bytes in a message that has %d left", ErrMalformed, n, len(f.rest))
	}
	taken := f.rest[:n]
	f.rest = f.rest[n:]
	return taken, nil
}

// isBytes reports whether the field has number num and contains bytes: a string or a message.
func (f *fields) isBytes(num uint64) bool { return f.num == num && f.wire == wireBytes }

// isVarint reports whether the field has number num and contains a number or a bool.
func (f *fields) isVarint(num uint64) bool { return f.num == num && f.wire == wireVarint }

// field returns the bytes of a field, the last ones if it is repeated, and nil if there is none.
func field(message []byte, num uint64) (value []byte, err error) {
	f := fields{rest: message}
	for f.next() {
		if f.isBytes(num) {
			value = f.bytes
		}
	}
	return value, f.err
}

// mapEntry decodes an entry of a map<string, string>.
func mapEntry(message []byte) (key, value []byte, err error) {
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(1):
			key = f.bytes
		case f.isBytes(2):
			value = f.bytes
		}
	}
	return key, value, f.err
}
