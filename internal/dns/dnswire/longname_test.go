package dnswire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestLongQuestion: ReadResponse rejects a question whose name is too long. Our own queries have
// none, but with a record after it the reader panicked (found by FuzzKeepWire).
func TestLongQuestion(t *testing.T) {
	for _, labels := range []int{1, 126, 127, 128, 1000} {
		m := append([]byte{0, 0, 0x80, 0, 0, 1, 0, 1, 0, 0, 0, 0}, bytes.Repeat([]byte{1, 'a'}, labels)...)
		m = append(m, 0, 0, 1, 0, 1)
		end := len(m)
		m = append(m, 1, 'b', 0xc0, HeaderSize) // an owner below the question
		m = binary.BigEndian.AppendUint32(append(m, 0, 1, 0, 1), 60)
		m = append(m, 0, 4, 192, 0, 2, 1)
		if _, ok := ReadResponse(m, end); ok {
			t.Errorf("with %d labels: the message was accepted", labels)
		}
	}
	short := append([]byte{0, 0, 0x80, 0, 0, 1, 0, 1, 0, 0, 0, 0}, bytes.Repeat([]byte{1, 'a'}, 127)...)
	short = append(short, 0, 0, 1, 0, 1)
	end := len(short)
	short = append(short, 0xc0, HeaderSize)
	short = append(binary.BigEndian.AppendUint32(append(short, 0, 1, 0, 1), 60), 0, 4, 192, 0, 2, 1)
	if _, ok := ReadResponse(short, end); !ok {
		t.Error("the longest valid name was rejected")
	}
}
