package dnsserver

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"

	"github.com/miekg/dns"
)

// cookieSize is the size of our COOKIE option in bytes: code, length, client cookie and server
// cookie.
const cookieSize = 4 + clientCookieSize + serverCookieSize

// cookieReply returns the response to a message for which asksForCookie is true. The response also
// tells the client whether its server cookie is valid.
func (r *responder) cookieReply(x exchange) []byte {
	e, rcode := readExtension(x.wire, headerSize)
	if rcode != dns.RcodeSuccess {
		return errorReply(x.wire, rcode)
	}
	client := x.wire[e.cookie:][:e.shown]
	server := client[clientCookieSize:]
	if len(server) > 0 && !r.cookies.IsValid(server, client, x.client.Addr(), r.clock()) {
		rcode = dns.RcodeBadCookie
	}
	return r.addCookie(errorReply(x.wire, rcode), client, x.client.Addr())
}

// knows reports whether a query carries a valid server cookie. The cookie was sent to the client's
// address, where no other host sees it, so the source address is not spoofed (RFC 7873 section
// 5.2.4). The message may be malformed.
func (r *responder) knows(x exchange) bool {
	var e extension
	at := findOPT(x.wire)
	if at == 0 || !e.readOptions(x.wire[:at+int(count(x.wire, at-2))], at) || e.cookie == 0 {
		return false
	}
	client := x.wire[e.cookie:][:e.shown]
	return r.cookies.IsValid(client[clientCookieSize:], client[:clientCookieSize], x.client.Addr(), r.clock())
}

// addCookie adds our cookie to a response that ends with an OPT record without options.
func (r *responder) addCookie(response, client []byte, from netip.Addr) []byte {
	if at := len(response) - optFixed; at < headerSize || response[at] != 0 || count(response, at+1) != dns.TypeOPT || count(response, at+9) != 0 {
		return response
	}
	binary.BigEndian.PutUint16(response[len(response)-2:], cookieSize)
	response = append(response, 0, dns.EDNS0COOKIE, 0, cookieSize-4)
	response = append(response, client[:clientCookieSize]...)
	return r.cookies.Append(response, client, from, r.clock())
}

// cookieOption returns the option that addCookie adds, for a response that is not packed yet, or
// nil if the query has no cookie.
func (r *responder) cookieOption(x exchange, e extension) *dns.EDNS0_COOKIE {
	if e.cookie == 0 {
		return nil
	}
	client := x.wire[e.cookie:][:clientCookieSize]
	whole := append(make([]byte, 0, cookieSize), client...)
	whole = r.cookies.Append(whole, client, x.client.Addr(), r.clock())
	return &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: hex.EncodeToString(whole)}
}
