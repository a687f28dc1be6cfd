package exchange

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/miekg/dns"
)

// Protection against forged responses in addition to port and ID: the case of the question's
// letters, and cookies.

// Sizes in bytes: DNS Cookies (RFC 7873 section 4), and the code and length of an EDNS option (RFC
// 6891 section 6.1.2).
const (
	ClientCookie     = 8
	LeastWithServers = ClientCookie + 8
	MostWithServers  = ClientCookie + 32
	optionHeader     = 4
)

// mixCase sets the case of each letter in the qname of our query by a random bit
// (draft-vixie-dnsext-dns0x20). draw returns random bits.
func mixCase(query []byte, draw func() uint16) {
	name := query[headerSize : QuestionEnd(query)-4]
	var bits uint16
	left := 0
	for i, c := range name {
		if c < 'a' || c > 'z' {
			continue
		}
		if left == 0 {
			bits, left = draw(), 16
		}
		name[i] -= byte(bits&1) * ('a' - 'A')
		bits, left = bits>>1, left-1
	}
}

// HasCase reports whether a response to the query sent repeats the case of its letters. The
// questions must be equal otherwise.
func HasCase(sent, response []byte) bool {
	end := QuestionEnd(sent)
	return bytes.Equal(sent[headerSize:end], response[headerSize:end])
}

// ParsedHasCase is HasCase for a parsed response. It returns true for a response without a
// question.
func ParsedHasCase(sent []byte, m *dns.Msg) bool {
	name, _, err := dns.UnpackDomainName(sent, headerSize)
	return len(m.Question) == 0 || err == nil && m.Question[0].Name == name
}

// mayHaveCookie reports whether our query ends with an OPT record without options, so that
// appendCookie may be called.
func mayHaveCookie(query []byte) bool { return len(query) == QuestionEnd(query)+optSize }

// appendCookie appends a cookie to a query for which mayHaveCookie is true. An empty option changes
// nothing.
func appendCookie(query, option []byte) []byte {
	if len(option) == 0 {
		return query
	}
	binary.BigEndian.PutUint16(query[len(query)-2:], uint16(optionHeader+len(option)))
	query = binary.BigEndian.AppendUint16(query, dns.EDNS0COOKIE)
	query = binary.BigEndian.AppendUint16(query, uint16(len(option)))
	return append(query, option...)
}

// CookieSent returns the cookie that appendCookie added to a query, or an empty slice.
func CookieSent(query []byte) []byte {
	at := QuestionEnd(query) + optSize
	if len(query) < at+optionHeader || binary.BigEndian.Uint16(query[at:]) != dns.EDNS0COOKIE {
		return nil
	}
	return query[at+optionHeader:]
}

// CookieIn returns the cookie in a parsed response, or an empty slice.
func CookieIn(m *dns.Msg) []byte {
	opt := m.IsEdns0()
	if opt == nil {
		return nil
	}
	for _, option := range opt.Option {
		if c, ok := option.(*dns.EDNS0_COOKIE); ok {
			octets, _ := hex.DecodeString(c.Cookie) // package dns encoded it
			return octets
		}
	}
	return nil
}

// IsBadCookie reports whether a server rejected the cookie of a query and sent a new one (RFC 7873
// section 5.3).
func IsBadCookie(query []byte, m *dns.Msg) bool {
	return m.Rcode == dns.RcodeBadCookie && len(CookieSent(query)) > 0
}
