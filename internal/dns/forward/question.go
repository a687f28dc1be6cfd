package forward

import (
	"crypto/rand"
	"encoding/binary"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// A question is all that is told to an upstream nameserver about a query, so
// that equal questions can share one response. What else a client sends, its
// EDNS options above all, stays here: a client subnet would split equal
// questions (CVE-2025-5994, Rebirthday) and tell who asks; a cookie (RFC 7873)
// is between two hosts only.
type question struct {
	name          string // in lower case, fully qualified, escaped as miekg/dns does
	qtype, qclass uint16
	do, cd, rd    bool
}

// questionOf takes the question from a query that has exactly one.
func questionOf(q *dnsserver.Query) question {
	first := q.Msg.Question[0]
	name := q.Name.String()
	if q.Name.IsZero() {
		name = strings.ToLower(dns.Fqdn(first.Name))
	}
	opt := q.Msg.IsEdns0()
	return question{
		name:   name,
		qtype:  first.Qtype,
		qclass: first.Qclass,
		do:     opt != nil && opt.Do(),
		cd:     q.Msg.CheckingDisabled,
		rd:     q.Msg.RecursionDesired,
	}
}

// String is how a question is written in errors: "example.com. AAAA".
func (q question) String() string { return q.name + " " + dnswire.TypeText(q.qtype) }

// rootQuestion is one that every nameserver answers at once, or refuses to.
func rootQuestion() question {
	return question{name: ".", qtype: dns.TypeNS, qclass: dns.ClassINET, rd: true}
}

// A form is how a question is written on the wire.
type form int

const (
	withEDNS    form = iota
	withoutEDNS      // for servers older than RFC 6891, or broken
	padded           // with EDNS, for TLS
)

// Octets of a message's parts (RFC 1035 section 4.1, RFC 6891 section 6.1.2).
const (
	headerSize   = 12
	maxNameSize  = 255
	optSize      = 11
	paddingBlock = 128 // RFC 8467 section 4.1, for queries
)

// Bits of the header's third and fourth octet (RFC 1035 section 4.1.1, RFC 4035
// section 3.2), and of the OPT record's TTL (RFC 3225).
const (
	bitQR = 1 << 7
	bitTC = 1 << 1
	bitRD = 1 << 0
	bitAD = 1 << 5
	bitCD = 1 << 4
	bitDO = 1 << 7
)

// A key is a question in octets: flags, the qname in lower case as on the wire, the type and the class. Queries with equal keys
// ask the same.
const (
	keyDO = 1 << iota
	keyCD
	keyRD
)

// maxKey is the size of the longest key.
const maxKey = 1 + maxNameSize + 4

// appendKey appends the key of a query, which has one question, and behind it nothing or an OPT record. It does not allocate.
// False: the query is one for the Handler, because its name has octets that host names do not have, or it asks for no recursion.
func appendKey(dst, query []byte) (key []byte, ok bool) {
	if query[2]&bitRD == 0 {
		return dst, false
	}
	flags := byte(keyRD)
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
	return append(key, query[end-4:end]...), true
}

// appendQuestion appends the key of a question. It fails for a name that no message can carry.
func appendQuestion(dst []byte, q question) (key []byte, err error) {
	var flags byte
	if q.do {
		flags |= keyDO
	}
	if q.cd {
		flags |= keyCD
	}
	if q.rd {
		flags |= keyRD
	}
	var name [maxNameSize + 1]byte
	end, err := dns.PackDomainName(q.name, name[:], 0, nil, false)
	if err != nil {
		return dst, err
	}
	key = append(dst, flags)
	for _, c := range name[:end] {
		key = append(key, lower(c))
	}
	key = binary.BigEndian.AppendUint16(key, q.qtype)
	return binary.BigEndian.AppendUint16(key, q.qclass), nil
}

// questionOfKey is the question that a key stands for.
func questionOfKey(key []byte) question {
	name, _, err := dns.UnpackDomainName(key, 1)
	if err != nil {
		name = "." // no key that was made here
	}
	return question{
		name:  name,
		qtype: binary.BigEndian.Uint16(key[len(key)-4:]), qclass: binary.BigEndian.Uint16(key[len(key)-2:]),
		do: key[0]&keyDO != 0, cd: key[0]&keyCD != 0, rd: key[0]&keyRD != 0,
	}
}

// isPlain reports whether an octet is written as itself in presentation format, and has no upper case.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// appendText appends the qname of a key of plain octets in presentation format.
func appendText(dst, key []byte) []byte {
	for name := key[1 : len(key)-4]; name[0] != 0; name = name[1+name[0]:] {
		dst = append(append(dst, name[1:][:name[0]]...), '.')
	}
	if len(dst) == 0 {
		return append(dst, '.')
	}
	return dst
}

// appendQuery appends the query that asks for a key, for UDP responses of at most size octets. AD is always set: it asks for the
// AD bit in the response (RFC 6840 section 5.7), and clients that want it share the response with those that do not.
func appendQuery(dst []byte, id uint16, key []byte, as form, size uint16) []byte {
	flags, recursion := byte(bitAD), byte(0)
	if key[0]&keyCD != 0 {
		flags |= bitCD
	}
	if key[0]&keyRD != 0 {
		recursion = bitRD
	}
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, id)
	dst = append(dst, recursion, flags, 0, 1, 0, 0, 0, 0, 0, 0)
	dst = append(dst, key[1:]...)
	if as == withoutEDNS {
		return dst
	}
	dst[start+11] = 1 // ARCOUNT
	var do byte
	if key[0]&keyDO != 0 {
		do = bitDO
	}
	dst = append(dst, 0, 0, byte(dns.TypeOPT), byte(size>>8), byte(size), 0, 0, do, 0)
	if as != padded {
		return append(dst, 0, 0)
	}
	used := len(dst) - start + 2 + optionHeader
	padding := (paddingBlock - used%paddingBlock) % paddingBlock
	dst = binary.BigEndian.AppendUint16(dst, uint16(optionHeader+padding))
	dst = binary.BigEndian.AppendUint16(dst, dns.EDNS0PADDING)
	dst = binary.BigEndian.AppendUint16(dst, uint16(padding))
	return append(dst, make([]byte, padding)...)
}

// wire is appendQuery with the ID 0, for a question.
func (q question) wire(as form, size uint16) ([]byte, error) {
	key, err := appendQuestion(nil, q)
	if err != nil {
		return nil, err
	}
	return appendQuery(nil, 0, key, as, size), nil
}

// newID draws a message ID from the kernel's generator. miekg/dns before 1.1.25
// drew them from math/rand, and answers could be forged (CVE-2019-19794).
func newID() uint16 {
	var id [2]byte
	_, _ = rand.Read(id[:]) // never fails since Go 1.24: it ends the program instead
	return binary.BigEndian.Uint16(id[:])
}

func setID(msg []byte, id uint16) { binary.BigEndian.PutUint16(msg, id) }

// ids are message IDs from the kernel's generator, drawn many at a time.
type ids struct {
	random [512]byte
	left   int // octets
}

func (d *ids) next() uint16 {
	if d.left == 0 {
		_, _ = rand.Read(d.random[:]) // never fails since Go 1.24: it ends the program instead
		d.left = len(d.random)
	}
	d.left -= 2
	return binary.BigEndian.Uint16(d.random[d.left:])
}
