package kubewire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	readAhead  = 16 << 10
	keepBuffer = 256 << 10 // a buffer that a big object made larger than this is not reused
	maxMeta    = 64 << 10  // limit for the parts of a list other than its items
)

// stream reads a message that is too big for memory, field by field.
type stream struct {
	r    *bufio.Reader
	left uint64 // remaining bytes of the message; MaxUint64 if it extends to the end of the body
	buf  []byte // result of the last take
}

func newStream(r io.Reader) *stream {
	return &stream{r: bufio.NewReaderSize(r, readAhead), left: math.MaxUint64}
}

// field returns the number and wire type of the next field, or io.EOF after the last one.
func (s *stream) field() (num, wire uint64, err error) {
	tag, err := s.varint()
	return tag >> 3, tag & 7, err
}

// varint reads a varint. It returns io.EOF if there is none.
func (s *stream) varint() (v uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		if s.left == 0 {
			return 0, cutOff(shift)
		}
		b, err := s.r.ReadByte()
		if err == io.EOF {
			return 0, cutOff(shift)
		}
		if err != nil {
			return 0, err
		}
		s.left--
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: varint is longer than 64 bits", ErrMalformed)
}

// cutOff returns the error of a varint that ends after that many bits.
func cutOff(bits int) error {
	if bits == 0 {
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

// length reads the length of a bytes field and checks that it fits into the message.
func (s *stream) length() (uint64, error) {
	n, err := s.varint()
	switch {
	case err != nil:
		return 0, unexpected(err)
	case n > s.left:
		return 0, fmt.Errorf("%w: field of %d bytes in a message that has %d left", ErrMalformed, n, s.left)
	}
	return n, nil
}

// take reads n bytes. They are valid until the next call.
func (s *stream) take(n, limit uint64) ([]byte, error) {
	if n > limit {
		return nil, fmt.Errorf("%w: %d bytes, expected at most %d", ErrTooBig, n, limit)
	}
	if cap(s.buf) > keepBuffer && n <= keepBuffer {
		s.buf = nil
	}
	s.buf = grow(s.buf, int(n))
	if _, err := io.ReadFull(s.r, s.buf); err != nil {
		return nil, unexpected(err)
	}
	s.left -= n
	return s.buf, nil
}

// grow returns a buffer of n bytes. It reuses b if b is large enough.
func grow(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	return make([]byte, n, max(n, 2*cap(b)))
}

func (s *stream) skip(wire uint64) error {
	var n uint64
	var err error
	switch wire {
	case wireVarint:
		_, err = s.varint()
		return unexpected(err)
	case wireBytes:
		n, err = s.length()
	case wireFixed64:
		n = 8
	case wireFixed32:
		n = 4
	default:
		err = fmt.Errorf("%w: wire type %d", ErrMalformed, wire)
	}
	if err != nil {
		return err
	}
	discarded, err := io.CopyN(io.Discard, s.r, int64(min(n, math.MaxInt64)))
	s.left -= uint64(discarded)
	return unexpected(err)
}

// unexpected replaces io.EOF by io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bounded is a reader that fails with ErrTooBig if one value of a JSON stream is too long.
// json.Decoder itself buffers a value of any length.
type bounded struct {
	r    io.Reader
	left int // bytes that may still be read; set before each value
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooBig, maxObject)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func expect(values *json.Decoder, want json.Token) error {
	got, err := values.Token()
	switch {
	case err != nil:
		return malformed(err)
	case got != want:
		return fmt.Errorf("%w: got %v, expected %v", ErrMalformed, got, want)
	}
	return nil
}

// malformed wraps an error of package json in ErrMalformed. It does not change errors of the
// reader.
func malformed(err error) error {
	switch err.(type) { // json returns its own errors as they are
	case *json.SyntaxError, *json.UnmarshalTypeError:
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return unexpected(err)
}
