package exchange

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// A Question is everything that an upstream nameserver learns about a query, so that equal
// questions share one response. The client's EDNS options are not passed on. A client subnet would
// split equal questions (CVE-2025-5994, Rebirthday) and identify the client, and a cookie (RFC
// 7873) concerns two hosts only.
type Question struct {
	Name       string // in lower case, fully qualified, escaped as miekg/dns does
	Type       uint16
	Class      uint16
	DO, CD, RD bool
}

// String returns the question as it appears in errors, such as "example.com. AAAA".
func (q Question) String() string { return q.Name + " " + dnswire.TypeText(q.Type) }

// RootQuestion returns a question that every nameserver answers or refuses at once.
func RootQuestion() Question {
	return Question{Name: ".", Type: dns.TypeNS, Class: dns.ClassINET, RD: true}
}

// A Form is a wire format of a question.
type Form int

// The wire formats of a question.
const (
	WithEDNS    Form = iota
	WithoutEDNS      // for servers older than RFC 6891, or broken
	Padded           // with EDNS, for TLS
)

// Sizes of message parts in bytes (RFC 1035 section 4.1, RFC 6891 section 6.1.2).
const (
	headerSize   = 12
	MaxNameSize  = 255
	optSize      = 11
	paddingBlock = 128 // RFC 8467 section 4.1, for queries
)

// Bits of the third and fourth bytes of the header (RFC 1035 section 4.1.1, RFC 4035 section 3.2),
// and of the OPT record's TTL (RFC 3225).
const (
	bitQR = 1 << 7
	bitTC = 1 << 1
	bitRD = 1 << 0
	bitAD = 1 << 5
	bitCD = 1 << 4
	bitDO = 1 << 7
)

// A Key is the binary form of a question: flags, the qname in lower case as on the wire, type and
// class. Equal questions have equal keys.
type Key []byte

// Flags of a Key.
const (
	keyDO = 1 << iota
	keyCD
	keyRD
)

// MaxKey is the size of the longest key.
const MaxKey = 1 + MaxNameSize + 4

// AppendKey appends the key of a query. The query has one question, followed by nothing or an OPT
// record. AppendKey does not allocate. ok is false if the Handler must answer the query, because
// its name has bytes that host names cannot have or because it does not ask for recursion.
func AppendKey(dst Key, query []byte) (k Key, ok bool) {
	if query[2]&bitRD == 0 {
		return dst, false
	}
	flags := byte(keyRD)
	if query[3]&bitCD != 0 {
		flags |= keyCD
	}
	end := QuestionEnd(query)
	if len(query) > end+7 && query[end+7]&bitDO != 0 { // RFC 6891 section 6.1.3
		flags |= keyDO
	}
	k = append(dst, flags)
	for at := headerSize; at < end-4; {
		label := query[at+1:][:query[at]]
		k = append(k, query[at])
		for _, c := range label {
			c = lower(c)
			if !isPlain(c) {
				return dst, false
			}
			k = append(k, c)
		}
		at += 1 + len(label)
	}
	return append(k, query[end-4:end]...), true
}

// AppendKey appends the key of a question. It fails for a name that does not fit in a message.
func (q Question) AppendKey(dst Key) (Key, error) {
	var flags byte
	if q.DO {
		flags |= keyDO
	}
	if q.CD {
		flags |= keyCD
	}
	if q.RD {
		flags |= keyRD
	}
	var name [MaxNameSize + 1]byte
	end, err := dns.PackDomainName(q.Name, name[:], 0, nil, false)
	if err != nil {
		return dst, err
	}
	k := append(dst, flags)
	for _, c := range name[:end] {
		k = append(k, lower(c))
	}
	k = binary.BigEndian.AppendUint16(k, q.Type)
	return binary.BigEndian.AppendUint16(k, q.Class), nil
}

// Question returns the question of a key.
func (k Key) Question() Question {
	name, _, err := dns.UnpackDomainName(k, 1)
	if err != nil {
		name = "." // not a key made by AppendKey
	}
	return Question{
		Name: name,
		Type: binary.BigEndian.Uint16(k[len(k)-4:]), Class: binary.BigEndian.Uint16(k[len(k)-2:]),
		DO: k.WantsDNSSEC(), CD: k[0]&keyCD != 0, RD: k[0]&keyRD != 0,
	}
}

// WantsDNSSEC reports whether the question has the DO bit.
func (k Key) WantsDNSSEC() bool { return k[0]&keyDO != 0 }

// isPlain reports whether a byte needs no escape in presentation format and is not an upper-case
// letter.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// AppendName appends the qname of a key in presentation format. All its bytes must be plain.
func (k Key) AppendName(dst []byte) []byte {
	for name := k[1 : len(k)-4]; name[0] != 0; name = name[1+name[0]:] {
		dst = append(append(dst, name[1:][:name[0]]...), '.')
	}
	if len(dst) == 0 {
		return append(dst, '.')
	}
	return dst
}

// AppendQuery appends the query for a key, for UDP responses of at most size bytes. It always sets
// AD, which asks for the AD bit in the response (RFC 6840 section 5.7), because clients that want
// it share the response with those that do not.
func AppendQuery(dst []byte, id uint16, k Key, as Form, size uint16) []byte {
	flags, recursion := byte(bitAD), byte(0)
	if k[0]&keyCD != 0 {
		flags |= bitCD
	}
	if k[0]&keyRD != 0 {
		recursion = bitRD
	}
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, id)
	dst = append(dst, recursion, flags, 0, 1, 0, 0, 0, 0, 0, 0)
	dst = append(dst, k[1:]...)
	if as == WithoutEDNS {
		return dst
	}
	dst[start+11] = 1 // ARCOUNT
	var do byte
	if k.WantsDNSSEC() {
		do = bitDO
	}
	dst = append(dst, 0, 0, byte(dns.TypeOPT), byte(size>>8), byte(size), 0, 0, do, 0)
	if as != Padded {
		return append(dst, 0, 0)
	}
	used := len(dst) - start + 2 + optionHeader
	padding := (paddingBlock - used%paddingBlock) % paddingBlock
	dst = binary.BigEndian.AppendUint16(dst, uint16(optionHeader+padding))
	dst = binary.BigEndian.AppendUint16(dst, dns.EDNS0PADDING)
	dst = binary.BigEndian.AppendUint16(dst, uint16(padding))
	return append(dst, make([]byte, padding)...)
}

// wire returns the query for q with ID 0.
func (q Question) wire(as Form, size uint16) ([]byte, error) {
	k, err := q.AppendKey(nil)
	if err != nil {
		return nil, err
	}
	return AppendQuery(nil, 0, k, as, size), nil
}

// newID returns a message ID from the kernel's random generator. miekg/dns before 1.1.25 used
// math/rand, so answers could be forged (CVE-2019-19794).
func newID() uint16 {
	var id [2]byte
	_, _ = rand.Read(id[:]) // never fails since Go 1.24, which crashes the program instead
	return binary.BigEndian.Uint16(id[:])
}

func setID(msg []byte, id uint16) { binary.BigEndian.PutUint16(msg, id) }

// IDs returns message IDs from the kernel's random generator. It reads many at a time.
type IDs struct {
	random [512]byte
	left   int // bytes
}

// Next returns a new ID.
func (d *IDs) Next() uint16 {
	if d.left == 0 {
		_, _ = rand.Read(d.random[:]) // never fails since Go 1.24, which crashes the program instead
		d.left = len(d.random)
	}
	d.left -= 2
	return binary.BigEndian.Uint16(d.random[d.left:])
}
