package health

import (
	"bytes"
	"crypto/rand"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// maxDoubts is how many responses in a row may be doubtful, without an answer over TCP, before what makes them so is taken for the
// server's manner.
const maxDoubts = 3

// A cookie and the case of letters make a response harder to forge. A response that fails their
// check is no proof of a forgery: some servers write the question in lower case, and some
// forwarders speak cookies only when their own upstream does (c-ares issues 1081 and 1271). So the
// question is asked again over TCP, which an attacker elsewhere cannot forge. The response over TCP
// is believed, and tells whether the server is one of these.

// Guard makes a query of ours hard to forge responses to. option is whether it may have a cookie; draw gives random bits.
func (a *Account) Guard(query []byte, udp *exchange.UDP, option bool, draw func() uint16, now time.Time) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if udp.MixedCase && !now.Before(a.health.lowerTill) {
		exchange.MixCase(query, draw)
	}
	if udp.Cookies && option && exchange.MayHaveCookie(query) {
		query = exchange.AppendCookie(query, a.health.cookie.option(now))
	}
	return query
}

// Doubts checks the cookie and the case of a response over UDP, and reports whether it may not be the server's. isAgain says that
// a response to the same query was doubtful before: the server is judged by the first.
func (a *Account) Doubts(sent []byte, hasCase bool, got []byte, isAgain bool, now time.Time) (isDoubtful bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	isDoubtful = a.health.cookie.heard(exchange.CookieSent(sent), got) || !hasCase
	switch {
	case !isDoubtful:
		a.health.doubts = 0
	case !isAgain:
		a.health.doubted(now)
	}
	return isDoubtful
}

// Believes takes the same of a response over TCP, which is the server's: what it lacks the server does not do.
func (a *Account) Believes(sent []byte, m *dns.Msg, now time.Time) {
	got, hasCase := exchange.CookieIn(m), exchange.ParsedHasCase(sent, m)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.doubts = 0
	if a.health.cookie.heard(exchange.CookieSent(sent), got) {
		a.health.cookie.forget(now)
	}
	if !hasCase {
		a.health.lowerTill = now.Add(plainFor)
	}
}

// RefusedCookie ends the use of cookies for a while: the server did not like the last.
func (a *Account) RefusedCookie(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.cookie.forget(now)
}

// doubted notes a doubtful response. If such responses do not end, and no response over TCP
// explains them, the server is asked without cookies and in lower case: an attacker who can forge
// so many in a row would have guessed as many ports and IDs.
func (h *health) doubted(now time.Time) {
	if h.doubts++; h.doubts < maxDoubts {
		return
	}
	h.doubts = 0
	h.lowerTill = now.Add(plainFor)
	h.cookie.forget(now)
}

const (
	cookieLife  = 24 * time.Hour // RFC 7873 section 7.1: no secret should be used for more than 26 hours
	cookieAgain = plainFor
)

// A cookie is our client cookie for one server, and the server's part. It is random and differs for
// each server, so it does not identify this host. Like health, it has no clock and no lock. The
// zero value has not been tried.
//
// One question each cookieAgain finds out whether a server speaks cookies. If the server, or a middlebox before it, does not like the
// option, that question costs a second try and no other question does. A response without the option tells the same.
type cookie struct {
	octets [exchange.MostWithServers]byte
	size   int // 0: no cookie; ClientCookie: it is not known whether the server speaks cookies
	drawn  time.Time
	next   time.Time // when it may be tried
	silent int       // questions in a row that were answered without it alone
}

// option is what the next question has; empty: nothing.
func (c *cookie) option(now time.Time) []byte {
	switch isOld := now.Sub(c.drawn) >= cookieLife; {
	case c.size > exchange.ClientCookie && !isOld:
		return c.octets[:c.size]
	case c.size <= exchange.ClientCookie && now.Before(c.next):
		return nil
	}
	_, _ = rand.Read(c.octets[:exchange.ClientCookie]) // never fails since Go 1.24: it ends the program instead
	c.size, c.drawn, c.next = exchange.ClientCookie, now, now.Add(cookieAgain)
	return c.octets[:c.size]
}

// heard takes the option of a response to a question that had the option sent; either may be empty. It reports whether the
// response is not from the server, as far as that can be told: it speaks cookies, and this is not the one that we sent.
func (c *cookie) heard(sent, got []byte) (isForeign bool) {
	if len(sent) < exchange.ClientCookie {
		return false
	}
	if len(got) < exchange.LeastWithServers || len(got) > exchange.MostWithServers || !bytes.Equal(got[:exchange.ClientCookie], sent[:exchange.ClientCookie]) {
		return len(sent) > exchange.ClientCookie
	}
	if bytes.Equal(got[:exchange.ClientCookie], c.octets[:exchange.ClientCookie]) { // else another was drawn since
		c.size, c.silent = copy(c.octets[:], got), 0
	}
	return false
}

// silentTo notes that the server answered without a cookie what it was silent to. Once or twice may be lost packets.
func (c *cookie) silentTo(now time.Time) {
	if c.silent++; c.silent >= plainToAvoid {
		c.forget(now)
	}
}

// forget ends the use of cookies, until they are tried again.
func (c *cookie) forget(now time.Time) { *c = cookie{next: now.Add(cookieAgain)} }
