package exchange

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// Reasons why a message is not the response to a query. Such a message is counted and ignored, and
// the wait continues. Otherwise anyone who can send one packet could turn answers into failures
// (TuDoor, CVE-2023-28452).
var (
	errShort    = errors.New("message shorter than a header and the question")
	errID       = errors.New("ID of another query")
	errNoReply  = errors.New("not a response to a standard query")
	errQuestion = errors.New("response to another question")
)

const opcodeBits = 0x0f << 3

// Decode returns the response in msg if it is the response to the query sent. Otherwise it returns
// an error with the reason. It compares the bytes of the question, not a hash of them
// (CVE-2020-25685, DNSpooq), and ignores case (RFC 4343).
//
// A truncated response may end anywhere (RFC 2181 section 9). Its sections are then empty and only
// the header is valid.
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
	m, err := dnswire.Unpack(msg)
	if err != nil {
		return nil, err
	}
	limitTTLs(m)
	return m, nil
}

// decodeStream is Decode for TCP and TLS, where only the server can send. It turns a malformed
// response into SERVFAIL: no better one follows, and the server is alive.
func decodeStream(sent, msg []byte) (*dns.Msg, error) {
	m, err := Decode(sent, msg)
	if IsUnreadable(err) {
		return &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Rcode: dns.RcodeServerFailure}}, nil
	}
	return m, err
}

// IsUnreadable reports whether Decode found a malformed response to the query. Over UDP it may be
// cut off, or forged by an attacker who knows port and ID, so the question is retried over TCP.
func IsUnreadable(err error) bool {
	return errors.Is(err, dnswire.ErrMalformed) || errors.Is(err, dnswire.ErrCostly)
}

// Simple returns the response in msg if it is the response to the query sent, and contains nothing
// that Decode, Judge or keepRelated could change.
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

// sameQuestion reports whether msg has exactly the question of sent. The qname is the first name in
// a message, so it is never compressed.
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

// lower returns a byte in lower case. It does not change label lengths: they are at most 63,
// below 'A'.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// QuestionEnd returns the offset of the end of the question in a query that we wrote.
func QuestionEnd(sent []byte) int {
	i := headerSize
	for sent[i] != 0 {
		i += int(sent[i]) + 1
	}
	return i + 1 + 4
}

// refusesWithoutQuestion reports whether msg is only a header that refuses a query with EDNS.
// Servers that predate EDNS respond like this if they cannot read the OPT record (RFC 6891 section
// 7: FORMERR; RFC 1035 lets them omit the question). The only effect is a retry without EDNS.
func refusesWithoutQuestion(sent, msg []byte) bool {
	if count(sent, 10) == 0 || count(msg, 4)+count(msg, 6)+count(msg, 8)+count(msg, 10) != 0 {
		return false
	}
	rcode := Rcode(msg)
	return rcode == dns.RcodeFormatError || rcode == dns.RcodeNotImplemented
}

// Rcode returns the RCODE in the header of a message.
func Rcode(msg []byte) int { return int(msg[3] & 0x0f) }

func count(msg []byte, offset int) int { return int(binary.BigEndian.Uint16(msg[offset:])) }

// SetTruncated sets TC in a message.
func SetTruncated(msg []byte) { msg[2] |= bitTC }

// limitTTLs sets TTLs with the highest bit set to 0 (RFC 2181 section 8).
func limitTTLs(m *dns.Msg) {
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if h := rr.Header(); h.Rrtype != dns.TypeOPT && h.Ttl > math.MaxInt32 {
				h.Ttl = 0
			}
		}
	}
}

// A Verdict says how to handle a response to a query.
type Verdict int

// The possible verdicts.
const (
	Final    Verdict = iota // return it to the client
	OverTCP                 // retry the same server over TCP
	NoEDNS                  // retry the same server without EDNS
	NextBest                // try another server; keep the response in case none does better
)

// Judge returns the verdict on a response. It checks only the header; the records are for the
// client to interpret. edns means that the query had an OPT record, and stream that it was sent
// over TCP or TLS.
//
// SERVFAIL and REFUSED lead to the next server, as glibc does (resolv.conf(5)). So do NOTIMP and
// FORMERR, because the query is known to be well-formed. An extended RCODE concerns the exchange
// with us, not the name, and cannot be sent to a client without EDNS.
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

// IsPresentable reports whether a response that was not final may be returned to the client if no
// server did better. FORMERR may not: the client would consider its own query malformed, although
// it was parsed here.
func IsPresentable(m *dns.Msg) bool {
	return m.Rcode <= 0x0f && m.Rcode != dns.RcodeFormatError && !m.Truncated && len(m.Question) == 1
}

// KeepErrors reduces the OPT record to its Extended DNS Errors, which explain the result to people
// (RFC 8914). Everything else in it concerns only the upstream and us (RFC 6891 section 6.1.1).
// Package dnsserver makes the OPT record for the client.
func KeepErrors(m *dns.Msg, opt *dns.OPT) {
	m.Extra = slices.DeleteFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	opt.Option = slices.DeleteFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() != dns.EDNS0EDE })
	if len(opt.Option) > 0 {
		m.Extra = append(m.Extra, opt)
	}
}
