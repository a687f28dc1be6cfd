package termtext

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestWriter(t *testing.T) {
	const text = "a\tb\nü漢😀 \x1b[2J\x07\r\u009b\u202e\xff\xe6\xbc(\n"
	const want = "a\tb\nü漢😀 \\x1b[2J\\x07\\x0d\\u009b\\u202e\\xff\\xe6\\xbc(\n"
	var whole, pieces bytes.Buffer
	if n, err := NewWriter(&whole).Write([]byte(text)); n != len(text) || err != nil || whole.String() != want {
		t.Errorf("%d, %v: %q", n, err, whole.String())
	}
	// Split anywhere, as a buffer is flushed when it is full.
	if n, err := io.Copy(NewWriter(&pieces), iotest.OneByteReader(strings.NewReader(text))); n != int64(len(text)) || err != nil || pieces.String() != want {
		t.Errorf("octet by octet: %d, %v: %q", n, err, pieces.String())
	}
	if Raw(NewWriter(&whole)) != io.Writer(&whole) || Raw(&whole) != io.Writer(&whole) {
		t.Error("Raw did not return the underlying writer")
	}
	full := errors.New("full")
	if _, err := NewWriter(failing{full}).Write([]byte("a")); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestWriteError: a line end in an error cannot fake a line of the program.
func TestWriteError(t *testing.T) {
	var out bytes.Buffer
	WriteError(&out, "node-dns", errors.New("it said \x1b[2J\nnode-dns: all is well\n"))
	if got := out.String(); got != "node-dns: it said \\x1b[2J\n  node-dns: all is well\n" {
		t.Errorf("%q", got)
	}
}
