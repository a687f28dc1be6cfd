package forward

import (
	"crypto/rand"
	"encoding/binary"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnswire"
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

// wire returns the question as a message with the ID 0, which asks for UDP responses of at most size octets. AD is always set: it
// asks for the AD bit in the response (RFC 6840 section 5.7), and clients that
// want it share the response with those that do not.
func (q question) wire(as form, size uint16) ([]byte, error) {
	msg := make([]byte, headerSize+maxNameSize, 2*paddingBlock+maxNameSize)
	if q.rd {
		msg[2] |= bitRD
	}
	msg[3] |= bitAD
	if q.cd {
		msg[3] |= bitCD
	}
	msg[5] = 1 // QDCOUNT
	end, err := dns.PackDomainName(q.name, msg, headerSize, nil, false)
	if err != nil {
		return nil, err
	}
	msg = binary.BigEndian.AppendUint16(msg[:end], q.qtype)
	msg = binary.BigEndian.AppendUint16(msg, q.qclass)
	if as == withoutEDNS {
		return msg, nil
	}
	msg[11] = 1 // ARCOUNT
	return q.appendOPT(msg, size, as == padded), nil
}

func (q question) appendOPT(msg []byte, size uint16, pad bool) []byte {
	var flags byte
	if q.do {
		flags = bitDO
	}
	msg = append(msg, 0, 0, byte(dns.TypeOPT), byte(size>>8), byte(size), 0, 0, flags, 0)
	if !pad {
		return append(msg, 0, 0)
	}
	const optionHeader = 4
	used := len(msg) + 2 + optionHeader
	padding := (paddingBlock - used%paddingBlock) % paddingBlock
	msg = binary.BigEndian.AppendUint16(msg, uint16(optionHeader+padding))
	msg = binary.BigEndian.AppendUint16(msg, dns.EDNS0PADDING)
	msg = binary.BigEndian.AppendUint16(msg, uint16(padding))
	return append(msg, make([]byte, padding)...)
}

// newID draws a message ID from the kernel's generator. miekg/dns before 1.1.25
// drew them from math/rand, and answers could be forged (CVE-2019-19794).
func newID() uint16 {
	var id [2]byte
	_, _ = rand.Read(id[:]) // never fails since Go 1.24: it ends the program instead
	return binary.BigEndian.Uint16(id[:])
}

func setID(msg []byte, id uint16) { binary.BigEndian.PutUint16(msg, id) }
