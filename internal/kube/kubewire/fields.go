package kubewire

import (
	"encoding/binary"
	"fmt"
)

// Wire types of protocol buffers. Groups (3 and 4) are in no message of Kubernetes.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// fields goes through the fields of a message. It copies nothing: what it yields points into the message.
type fields struct {
	rest []byte
	err  error // what ended it; nil at the end of a whole message

	num   uint64 // of the field that next came to
	wire  uint64 // its wire type
	value uint64 // of a varint
	bytes []byte // of wireBytes
}

// each calls use for every field of message, until that returns an error.
func each(message []byte, use func(f *fields) error) error {
	f := fields{rest: message}
	for f.next() {
		if err := use(&f); err != nil {
			return err
		}
	}
	return f.err
}

// next goes to the next field. It is false at the end, and where the message makes no sense.
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
		return nil, fmt.Errorf("%w: field of %d octets in a message that has %d left", ErrMalformed, n, len(f.rest))
	}
	taken := f.rest[:n]
	f.rest = f.rest[n:]
	return taken, nil
}

// isBytes reports whether the field is number num, and holds octets: a string, or a message.
func (f *fields) isBytes(num uint64) bool { return f.num == num && f.wire == wireBytes }

// isVarint reports whether the field is number num, and holds a number or a truth.
func (f *fields) isVarint(num uint64) bool { return f.num == num && f.wire == wireVarint }

// mapEntry returns key and value of an entry of a map<string, string>.
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
