package termtext

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Writer wraps a program's standard output or standard error. It escapes everything that is
// written to it except line ends and tabs, so that no untrusted text can control the terminal,
// whichever command prints it. Its methods may be called concurrently.
type Writer struct {
	out io.Writer

	mu  sync.Mutex
	cut []byte // start of a character that the next Write completes
}

// NewWriter returns a Writer to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.cut, p...)
	whole := wholeRunes(text)
	w.cut = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(w.out, Lines(string(text[:whole]), "")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// wholeRunes returns the length of text without an incomplete character at its end.
func wholeRunes(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return at
			}
			break
		}
	}
	return len(text)
}

// Raw returns the underlying writer of a Writer, and any other w unchanged. It is for a program's
// own colors and cursor movements around text that is already escaped.
func Raw(w io.Writer) io.Writer {
	if writer, ok := w.(*Writer); ok {
		return writer.out
	}
	return w
}

// WriteError writes a fatal error as "PROGRAM: ERROR", with further lines indented.
func WriteError(w io.Writer, program string, err error) {
	fmt.Fprintf(w, "%s: %s\n", program, Lines(strings.TrimRight(err.Error(), "\n"), "  "))
}
