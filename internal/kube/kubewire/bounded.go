package kubewire

import (
	"encoding/json"
	"fmt"
	"io"
)

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

// expect reads one token and checks it.
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
