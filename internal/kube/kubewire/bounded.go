package kubewire

import (
	"encoding/json"
	"fmt"
	"io"
)

// bounded is a reader that ends in ErrTooBig when one value of a JSON stream is longer than it may be: json.Decoder
// itself holds a value of any length.
type bounded struct {
	r    io.Reader
	left int // octets that may still be read; the user of the stream sets it before each value
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: more than %d octets", ErrTooBig, maxObject)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// expect reads a token that must be this one.
func expect(values *json.Decoder, want json.Token) error {
	got, err := values.Token()
	switch {
	case err != nil:
		return malformed(err)
	case got != want:
		return fmt.Errorf("%w: %v where %v should be", ErrMalformed, got, want)
	}
	return nil
}

// malformed is err of package json as an error of this one. What the reader said stays as it is.
func malformed(err error) error {
	switch err.(type) { //nolint:errorlint // json returns its own errors as they are
	case *json.SyntaxError, *json.UnmarshalTypeError:
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return unexpected(err)
}
