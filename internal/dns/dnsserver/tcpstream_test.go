package dnsserver

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// FuzzFrames: messages are the same however the stream is split, and only incomplete ones are kept.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x02ab\x00\x00\x00\x01c\x00\x05de"), []byte{1, 3, 200})
	f.Add([]byte("\x00\x03abc"), []byte{})
	f.Add([]byte{0xff, 0xff, 1}, []byte{2})
	f.Fuzz(func(t *testing.T, octets, sizes []byte) {
		var want [][]byte
		left := octets
		for len(left) >= prefixSize {
			end := prefixSize + int(binary.BigEndian.Uint16(left))
			if end > len(left) {
				break
			}
			want = append(want, left[prefixSize:end])
			left = left[end:]
		}
		var got [][]byte
		var held frames
		for rest, i := octets, 0; len(rest) > 0; i++ {
			size := len(rest)
			if i < len(sizes) {
				size = min(int(sizes[i])+1, size)
			}
			piece := bytes.Clone(rest[:size])
			whole := held.join(piece)
			for {
				message, after, ok := nextMessage(whole)
				if !ok {
					break
				}
				got, whole = append(got, bytes.Clone(message)), after
			}
			held.keep(whole)
			clear(piece) // the read buffer is reused for another connection
			rest = rest[size:]
		}
		if !slices.EqualFunc(got, want, bytes.Equal) || !bytes.Equal(held.rest, left) {
			t.Errorf("got %x and %x, want %x and %x", got, held.rest, want, left)
		}
	})
}
