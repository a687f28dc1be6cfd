package exchange

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/records"
)

// Why a message is not the response to a query. Such a message is counted and
// ignored, and the wait goes on: ending it would let anyone who can send one
// packet turn answers into failures (TuDoor, CVE-2023-28452).
var (
	errShort    = errors.New("message shorter than a header and the question")
	errID       = errors.New("ID of another query")
	errNoReply  = errors.New("not a response to a standard query")
	errQuestion = errors.New("response to another question")
)

const opcodeBits = 0x0f << 3

// Decode returns the response in msg when it is the response to the query sent,
// an error that says why not otherwise. The question is compared as octets, not
// by a hash of them (CVE-2020-25685, DNSpooq), with the case of letters left out
// (RFC 4343).
//
// A truncated response may end anywhere (RFC 2181 section 9): then the sections
// are empty and only the header counts.
func Decode(sent, msg []byte) (*dns.Msg, error) {
	if err := checkHeader(sent, msg); err != nil {
		return nil, err
	}
	if refusesWithoutQuestion(sent, msg) {
		return &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Rcode: Rcode(msg)}}, nil
	}
	if !sameQuestion(sent, msg) {
		return nil, errQuestion
	}
	if msg[2]&bitTC != 0 {
		return &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Truncated: true, Rcode: Rcode(msg)}}, nil
	}
	m, err := records.Unpack(msg)
	if err != nil {
		return nil, err
	}
	limitTTLs(m)
	return m, nil
}

// decodeStream is Decode for TCP and TLS, where only the server can send. An unreadable response
// counts as SERVFAIL: no better one follows, and the server is alive.
func decodeStream(sent, msg []byte) (*dns.Msg, error) {
	m, err := Decode(sent, msg)
	if IsUnreadable(err) {
		return &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Rcode: dns.RcodeServerFailure}}, nil
	}
	return m, err
}

// IsUnreadable reports whether Decode found a response to the query that cannot be read. Over UDP
// it may be cut, or forged by an attacker who knows port and ID, so the question is asked again
// over TCP.
func IsUnreadable(err error) bool {
	return errors.Is(err, records.ErrMalformed) || errors.Is(err, records.ErrCostly)
}

// Simple returns the response in msg when it is the response to the query sent, and nothing is in it that Decode, Judge or
// keepRelated could change.
func Simple(sent, msg []byte) (r dnswire.Response, ok bool) {
	if checkHeader(sent, msg) != nil || !sameQuestion(sent, msg) {
		return r, false
	}
	return dnswire.ReadResponse(msg, QuestionEnd(sent))
}

func checkHeader(sent, msg []byte) error {
	switch {
	case len(msg) < headerSize:
		return errShort
	case msg[0] != sent[0] || msg[1] != sent[1]:
		return errID
	case msg[2]&bitQR == 0 || msg[2]&opcodeBits != 0:
		return errNoReply
	}
	return nil
}

// sameQuestion reports whether msg has exactly the question of sent. The qname
// is the first name of a message, so it is never compressed.
func sameQuestion(sent, msg []byte) bool {
	end := QuestionEnd(sent)
	if count(msg, 4) != 1 || len(msg) < end {
		return false
	}
	name := end - 4 // then type and class
	for i := headerSize; i < name; i++ {
		if lower(sent[i]) != lower(msg[i]) {
			return false
		}
	}
	return string(sent[name:end]) == string(msg[name:end])
}

// lower leaves the lengths of labels alone: they are at most 63, below 'A'.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// QuestionEnd is the offset behind the question of a query that we wrote.
func QuestionEnd(sent []byte) int {
	i := headerSize
	for sent[i] != 0 {
		i += int(sent[i]) + 1
	}
	return i + 1 + 4
}

// refusesWithoutQuestion reports whether msg is nothing but a header that refuses a
// Query with EDNS. That is how servers from before EDNS say that they could
// not read the OPT record (RFC 6891 section 7: FORMERR, and RFC 1035 lets them
// leave the question out). It only makes us ask again without EDNS.
func refusesWithoutQuestion(sent, msg []byte) bool {
	if count(sent, 10) == 0 || count(msg, 4)+count(msg, 6)+count(msg, 8)+count(msg, 10) != 0 {
		return false
	}
	rcode := Rcode(msg)
	return rcode == dns.RcodeFormatError || rcode == dns.RcodeNotImplemented
}

// Rcode is the RCODE in the header of a message.
func Rcode(msg []byte) int { return int(msg[3] & 0x0f) }

func count(msg []byte, offset int) int { return int(binary.BigEndian.Uint16(msg[offset:])) }

// SetTruncated marks a message as truncated.
func SetTruncated(msg []byte) { msg[2] |= bitTC }

// limitTTLs turns TTLs with the highest bit set into 0, as RFC 2181 section 8 asks.
func limitTTLs(m *dns.Msg) {
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if h := rr.Header(); h.Rrtype != dns.TypeOPT && h.Ttl > math.MaxInt32 {
				h.Ttl = 0
			}
		}
	}
}

// A Verdict is what is done with a response that belongs to its query.
type Verdict int

// The verdicts.
const (
	Final    Verdict = iota // the client gets it
	OverTCP                 // the same server is asked again over TCP
	NoEDNS                  // the same server is asked again without EDNS
	NextBest                // another server is asked; kept in case that no server does better
)

// Judge looks only at the header: what the records say is the client's business.
// edns means that the query had an OPT record; stream that it came over TCP or TLS.
//
// SERVFAIL and REFUSED go on to the next server as resolv.conf(5) has it for
// glibc; NOTIMP and FORMERR with them, because the query is known to be well
// formed. An extended RCODE is about the transaction with us, not about the
// name, and cannot be said to a client without EDNS.
func Judge(m *dns.Msg, edns, stream bool) Verdict {
	switch m.Rcode {
	case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
		if edns {
			return NoEDNS
		}
		return NextBest
	case dns.RcodeServerFailure, dns.RcodeRefused:
		return NextBest
	}
	switch {
	case m.Rcode > 0x0f:
		return NextBest
	case m.Truncated && stream:
		return NextBest
	case m.Truncated:
		return OverTCP
	}
	return Final
}

// IsPresentable reports whether a response that was not final may still be given
// to the client when no server did better. FORMERR may not: the client would take its
// own query for malformed, which has been read here.
func IsPresentable(m *dns.Msg) bool {
	return m.Rcode <= 0x0f && m.Rcode != dns.RcodeFormatError && !m.Truncated && len(m.Question) == 1
}

// KeepErrors leaves nothing of the OPT record but its Extended DNS Errors, which
// tell people why (RFC 8914). All else in it is between the upstream and us (RFC 6891
// section 6.1.1); dnsserver makes the one for the client.
func KeepErrors(m *dns.Msg, opt *dns.OPT) {
	m.Extra = slices.DeleteFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	opt.Option = slices.DeleteFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() != dns.EDNS0EDE })
	if len(opt.Option) > 0 {
		m.Extra = append(m.Extra, opt)
	}
}
