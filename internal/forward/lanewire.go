package forward

import (
	"encoding/binary"
	"strings"

	"github.com/miekg/dns"
)

// A key is what makes two queries the same question: DO and CD, and as on the wire the qname in lower case, and the type.
// The class is IN, and recursion is desired.
const (
	keyDO = 1 << iota
	keyCD
)

// appendKey appends the key of a query, which has one question, and behind it nothing or an OPT record. False: it is a query
// for the Handler, as its qname has octets that a host name has not, or it asks for no recursion.
func appendKey(dst, query []byte) (key []byte, ok bool) {
	if query[2]&bitRD == 0 {
		return dst, false
	}
	var flags byte
	if query[3]&bitCD != 0 {
		flags |= keyCD
	}
	end := questionEnd(query)
	if len(query) > end+7 && query[end+7]&bitDO != 0 { // RFC 6891 section 6.1.3
		flags |= keyDO
	}
	key = append(dst, flags)
	for at := headerSize; at < end-4; {
		label := query[at+1:][:query[at]]
		key = append(key, query[at])
		for _, c := range label {
			c = lower(c)
			if !isPlain(c) {
				return dst, false
			}
			key = append(key, c)
		}
		at += 1 + len(label)
	}
	return append(key, query[end-4:end-2]...), true
}

// appendQuestion appends the key of a question. False: a lane has none for it.
func appendQuestion(dst []byte, q question) (key []byte, ok bool) {
	var flags byte
	if q.do {
		flags |= keyDO
	}
	if q.cd {
		flags |= keyCD
	}
	key = append(dst, flags)
	for label := range strings.SplitSeq(strings.TrimSuffix(q.name, "."), ".") {
		if label == "" {
			break // the root
		}
		key = append(append(key, byte(len(label))), label...)
		for i := range len(label) {
			if !isPlain(label[i]) {
				return dst, false
			}
		}
	}
	key = append(key, 0)
	return binary.BigEndian.AppendUint16(key, q.qtype), true
}

// questionOfKey is the question that a key is of.
func questionOfKey(key []byte) question {
	return question{
		name:  string(appendText(nil, key)),
		qtype: binary.BigEndian.Uint16(key[len(key)-2:]), qclass: dns.ClassINET,
		do: key[0]&keyDO != 0, cd: key[0]&keyCD != 0, rd: true,
	}
}

// isPlain reports whether presentation format has the octet as it is, and upper case is no matter.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// appendText appends the qname of a key in presentation format.
func appendText(dst, key []byte) []byte {
	for name := key[1 : len(key)-2]; name[0] != 0; name = name[1+name[0]:] {
		dst = append(append(dst, name[1:][:name[0]]...), '.')
	}
	if len(dst) == 0 {
		return append(dst, '.')
	}
	return dst
}

// appendQuery appends the query that asks for a key, as question.wire writes it.
func appendQuery(dst []byte, id uint16, key []byte, size uint16) []byte {
	var flags, do byte = bitAD, 0
	if key[0]&keyCD != 0 {
		flags |= bitCD
	}
	if key[0]&keyDO != 0 {
		do = bitDO
	}
	dst = binary.BigEndian.AppendUint16(dst, id)
	dst = append(dst, bitRD, flags, 0, 1, 0, 0, 0, 0, 0, 1)
	dst = append(dst, key[1:]...)
	dst = binary.BigEndian.AppendUint16(dst, dns.ClassINET)
	return append(dst, 0, 0, byte(dns.TypeOPT), byte(size>>8), byte(size), 0, 0, do, 0, 0, 0)
}

// matchWire is match for the name in a key. It does not allocate.
func (t *table) matchWire(key []byte) *route {
	var room [maxNameSize + 1]byte
	text := appendText(room[:0], key)
	if t.plain != nil && len(text) > 1 && strings.IndexByte(string(text), '.') == len(text)-1 {
		if r := t.byText[string(text)]; r != nil {
			return r
		}
		return t.plain
	}
	for zone := text; ; {
		if r := t.byText[string(zone)]; r != nil || len(zone) == 1 {
			return r
		}
		for zone[0] != '.' {
			zone = zone[1:]
		}
		if len(zone) > 1 {
			zone = zone[1:] // the last dot stands for the root
		}
	}
}
