package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// WireQuery is a query as it was received. It was checked but not parsed. It has one question, of
// class IN and of a type that may be answered. After the question it has nothing, or an OPT record
// of version 0 with well-formed options.
type WireQuery struct {
	Msg           []byte         // must not be modified or kept
	Limit         int            // maximum size of the response in bytes, RFC 6891 section 6.2.5
	Client, Local netip.AddrPort // where the response goes and where the query arrived
	Proto         Proto
	Arrived       time.Time // zero means now

	End      int  // offset of the end of the question in Msg
	EDNS, DO bool // whether it has an OPT record, and the DO bit in it
	// Mark is a value that the WireFunc can leave for the MissFunc; 0 if none.
	Mark uint32

	cookie uint16 // offset of the client cookie in Msg; 0 if none
}

// Name returns the bytes of the qname. It is not compressed.
func (q WireQuery) Name() []byte { return q.Msg[headerSize : q.End-4] }

// Question returns the bytes of the question: name, type and class.
func (q WireQuery) Question() []byte { return q.Msg[headerSize:q.End] }

// AppendKey appends the question with its name in lower case, which is the same for all equal
// questions.
func (q WireQuery) AppendKey(dst []byte) []byte {
	return append(dnswire.AppendLower(dst, q.Name()), q.Msg[q.End-4:q.End]...)
}

// Type returns the qtype.
func (q WireQuery) Type() uint16 { return count(q.Msg, q.End-4) }

// WireFunc answers a query without parsing it. It appends the response to dst and returns it. With
// ok false, nothing was appended, and the Handler answers.
//
// The response is sent unchanged, so it must be complete, as if the Handler had answered: the ID,
// RD and CD of the query, its question byte by byte, RA, an OPT record at the end if the query
// has one, and TC only if the answer does not fit Limit. A WireFunc may set Mark of the query but
// must not keep the query or change anything else in it. It is called from many goroutines at once,
// over UDP from the receiving one, so it must not block.
type WireFunc func(dst []byte, q *WireQuery) (response []byte, ok bool)

// read reads a message that accept let through, and reports whether it is a WireQuery, that is,
// whether parseQuery would accept it and its class is IN. Msg is a copy without other records after
// the question, if there are any.
func (q *WireQuery) read(x *exchange, largest int) bool {
	*q = WireQuery{Msg: x.wire, Client: x.client, Local: x.local, Proto: x.proto, Arrived: x.arrived, End: questionEnd(x.wire)}
	question := dns.Question{Qtype: q.Type(), Qclass: count(x.wire, q.End-2)}
	if question.Qclass != dns.ClassINET || checkQuestion(question) != dns.RcodeSuccess {
		return false
	}
	size, rest := 0, x.wire[q.End:]
	switch n := count(x.wire, 10); {
	case n == 0 && len(rest) == 0:
	case n == 1 && isBareOPT(rest):
		size, q.EDNS, q.DO = int(count(rest, 3)), true, rest[7]&optDO != 0
	default:
		e, rcode := readExtension(x.wire, q.End)
		if rcode != dns.RcodeSuccess {
			return false
		}
		size, q.EDNS, q.DO, q.cookie = e.size, e.fixed > 0, e.do, uint16(e.cookie)
		if !e.isLast {
			q.Msg, q.cookie = e.shortened(x.wire, q.End)
		}
	}
	q.Limit = responseLimit(x.proto, size, largest)
	if q.cookie > 0 {
		q.Limit -= cookieSize
	}
	return true
}

// isBareOPT reports whether wire is an OPT record of version 0 without options, as in nearly every
// query.
func isBareOPT(wire []byte) bool {
	return len(wire) == optFixed && wire[0] == 0 && count(wire, 1) == dns.TypeOPT && wire[6] == 0 && count(wire, 9) == 0
}

func isTruncated(response []byte) bool { return count(response, 2)&bitTC != 0 }

const (
	headerSize = 12 // RFC 1035 section 4.1.1
	maxName    = 255
	maxLabel   = 63
)

// Bits of the flags word of the header (RFC 1035 section 4.1.1, RFC 4035 section 3.2.2).
const (
	bitQR      = 1 << 15
	maskOpcode = 0xf << 11
	bitTC      = 1 << 9
	bitRD      = 1 << 8
	bitRA      = 1 << 7
	bitCD      = 1 << 4
)

func count(wire []byte, at int) uint16 { return binary.BigEndian.Uint16(wire[at:]) }

// questionEnd returns the offset of the end of the question, or 0 if the message does not have
// exactly one complete question. The name must not be compressed: no earlier name exists that a
// pointer could refer to.
func questionEnd(wire []byte) int {
	if count(wire, 4) != 1 {
		return 0
	}
	at := headerSize
	for at < len(wire) {
		size := int(wire[at])
		if size > maxLabel {
			return 0
		}
		at += 1 + size
		if at-headerSize > maxName {
			return 0
		}
		if size == 0 {
			end := at + 4 // type and class
			if end > len(wire) {
				return 0
			}
			return end
		}
	}
	return 0
}
