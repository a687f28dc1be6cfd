// Package dnswire reads messages from the network. ReadResponse, Unpack and IsWhole take any bytes,
// and Unpack's records can be checked for those that were requested. The functions that read a name
// or a record in place, without allocation, take messages that were parsed or packed before.
//
// Packages that cache and answer messages in wire format use it without sockets, so it is separate
// from dnsserver. A dnsname.Name is text, so it is separate from dnsname too. The forwarder uses
// Unpack for messages from upstream nameservers, and the cache when it reads them again, so that
// both are equally careful.
package dnswire

import "encoding/binary"

// Limits of RFC 1035 sections 2.3.4 and 4.1.
const (
	HeaderSize  = 12
	MaxName     = 255             // bytes of a name, including the root label
	MaxQuestion = MaxName + 2 + 2 // with type and class
)

// AppendLower appends bytes with the letters A to Z in lower case. Label lengths are never such
// letters.
func AppendLower(dst, name []byte) []byte {
	at := len(dst)
	dst = append(dst, name...)
	for ; at+8 <= len(dst); at += 8 {
		binary.LittleEndian.PutUint64(dst[at:], lower8(binary.LittleEndian.Uint64(dst[at:])))
	}
	for ; at < len(dst); at++ {
		if c := dst[at]; 'A' <= c && c <= 'Z' {
			dst[at] += 'a' - 'A'
		}
	}
	return dst
}

// lower8 converts eight bytes at a time. The highest bit of each byte is the intermediate result.
func lower8(v uint64) uint64 {
	const each = 0x0101010101010101
	low := v & (0x7f * each)
	fromA, aboveZ := low+(0x80-'A')*each, low+(0x7f-'Z')*each
	return v | (fromA^aboveZ)&^v&(0x80*each)>>2
}

// AppendText appends the text of a name: that of its dnsname.Name, in lower case with the final
// dot. ok is false, and the appended text is invalid, if dnsname.Parse rejects the name.
func AppendText(dst, name []byte) (text []byte, ok bool) {
	if len(name) <= 1 {
		return append(dst, '.'), len(name) == 1
	}
	start, length := len(dst), int(name[0])
	dst = append(dst, name[1:]...)
	text = dst[start:]
	for i, c := range text {
		if i == length {
			text[i], length = '.', i+1+int(c)
			continue
		}
		if text[i] = hostLetter[c]; text[i] != 0 {
			continue
		}
		isWildcard := c == '*' && i+1 == length && (i == 0 || text[i-1] == '.')
		if !isWildcard {
			return dst, false
		}
		text[i] = c
	}
	return dst, true
}

// hostLetter maps the bytes that a dnsname.Name may have in a label to lower case, and all others
// to 0.
var hostLetter = func() (table [256]byte) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_") {
		table[c] = c
	}
	for c := 'A'; c <= 'Z'; c++ {
		table[c] = byte(c) + 'a' - 'A'
	}
	return table
}()
