package exchange

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/miekg/dns"
)

// Protection against forged responses in addition to port and ID: the case of the question's
// letters, and cookies.
//
// A failed check does not prove a forgery: some servers write the question in lower case, and some
// forwarders support cookies only when their own upstream does (c-ares issues 1081 and 1271). So
// the question is sent again over TCP, which an off-path attacker cannot forge. The response over
// TCP is trusted, and shows whether the server is one of these.

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

// maxMismatches is the number of mismatched responses in a row, without an answer over TCP, after
// which they count as normal behavior of the server.
const maxMismatches = 3

// Guard makes responses to one of our queries hard to forge. option means that the query may have a
// cookie. draw returns random bits.
func (a *Account) Guard(query []byte, udp *UDP, option bool, draw func() uint16, now time.Time) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if udp.MixedCase && !now.Before(a.health.lowerTill) {
		mixCase(query, draw)
	}
	if udp.Cookies && option && mayHaveCookie(query) {
		query = appendCookie(query, a.health.cookie.option(now))
	}
	return query
}

// CheckUDP checks the cookie and letter case of a response over UDP and reports whether it may be
// forged. isAgain means that an earlier response to the same query was mismatched; only the first
// counts against the server.
func (a *Account) CheckUDP(sent []byte, hasCase bool, got []byte, isAgain bool, now time.Time) (isMismatch bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	isMismatch = a.health.cookie.heard(CookieSent(sent), got) || !hasCase
	switch {
	case !isMismatch:
		a.health.mismatches = 0
	case !isAgain:
		a.health.mismatched(now)
	}
	return isMismatch
}

// CheckTCP does the same checks on a response over TCP, which cannot be forged. A missing feature
// there means that the server does not support it.
func (a *Account) CheckTCP(sent []byte, m *dns.Msg, now time.Time) {
	got, hasCase := CookieIn(m), ParsedHasCase(sent, m)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.mismatches = 0
	if a.health.cookie.heard(CookieSent(sent), got) {
		a.health.cookie.forget(now)
	}
	if !hasCase {
		a.health.lowerTill = now.Add(plainFor)
	}
}

// RefusedCookie stops the use of cookies for a while, because the server rejected one.
func (a *Account) RefusedCookie(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.cookie.forget(now)
}

// mismatched records a mismatched response. If such responses continue and no response over TCP
// explains them, the server is queried without cookies and in lower case: an attacker who forged
// that many in a row would have guessed as many ports and IDs.
func (h *health) mismatched(now time.Time) {
	if h.mismatches++; h.mismatches < maxMismatches {
		return
	}
	h.mismatches = 0
	h.lowerTill = now.Add(plainFor)
	h.cookie.forget(now)
}

const (
	cookieLife  = 24 * time.Hour // RFC 7873 section 7.1: no secret should be used for more than 26 hours
	cookieAgain = plainFor
)

// A cookie is our client cookie for one server, and the server's cookie. It is random and differs
// for each server, so it does not identify this host. Like health, it has no clock and no lock. The
// zero value has not been tried.
//
// One question per cookieAgain finds out whether a server supports cookies. If the server, or a
// middlebox in front of it, rejects the option, only that question needs a second try. A response
// without the option has the same effect.
type cookie struct {
	octets [MostWithServers]byte
	size   int // 0 means no cookie; ClientCookie means that it is unknown whether the server supports cookies
	drawn  time.Time
	next   time.Time // earliest time of the next attempt
	silent int       // consecutive questions that were answered only without a cookie
}

// option returns the cookie option for the next question, or nothing.
func (c *cookie) option(now time.Time) []byte {
	switch isOld := now.Sub(c.drawn) >= cookieLife; {
	case c.size > ClientCookie && !isOld:
		return c.octets[:c.size]
	case c.size <= ClientCookie && now.Before(c.next):
		return nil
	}
	_, _ = rand.Read(c.octets[:ClientCookie]) // never fails since Go 1.24; it crashes the program instead
	c.size, c.drawn, c.next = ClientCookie, now, now.Add(cookieAgain)
	return c.octets[:c.size]
}

// heard processes the cookie of a response to a query that had the cookie sent; either may be
// empty. It reports whether the response seems forged: the server supports cookies, and this is not
// the one that we sent.
func (c *cookie) heard(sent, got []byte) (isForeign bool) {
	if len(sent) < ClientCookie {
		return false
	}
	if len(got) < LeastWithServers || len(got) > MostWithServers || !bytes.Equal(got[:ClientCookie], sent[:ClientCookie]) {
		return len(sent) > ClientCookie
	}
	// Ignore the response to an older cookie: a newer one has been drawn since.
	if bytes.Equal(got[:ClientCookie], c.octets[:ClientCookie]) {
		c.size, c.silent = copy(c.octets[:], got), 0
	}
	return false
}

// silentTo records that the server answered only without a cookie. Once or twice may be packet
// loss.
func (c *cookie) silentTo(now time.Time) {
	if c.silent++; c.silent >= plainToAvoid {
		c.forget(now)
	}
}

// forget stops the use of cookies until the next attempt.
func (c *cookie) forget(now time.Time) { *c = cookie{next: now.Add(cookieAgain)} }
