package dnsserver

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"net/netip"
	"time"

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
	return r.addCookie(errorReply(x.wire, rcode), 0, client, x.client.Addr())
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

// addCookie adds our cookie to a response that begins at start and ends with an OPT record, which
// has options only in a failure.
func (r *responder) addCookie(response []byte, start int, client []byte, from netip.Addr) []byte {
	m, options := response[start:], 0
	if isFailure(m) {
		if data := findOPT(m); data > 0 {
			options = len(m) - data
		}
	}
	if at := len(m) - options - optFixed; at < headerSize || m[at] != 0 || count(m, at+1) != dns.TypeOPT || int(count(m, at+9)) != options {
		return response
	}
	binary.BigEndian.PutUint16(m[len(m)-options-2:], uint16(options+cookieSize))
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

const (
	// clientCookieSize is the size of a client cookie in bytes (RFC 7873 section 4).
	clientCookieSize = 8
	// serverCookieSize is the size of a server cookie in bytes (RFC 9018 section 4).
	serverCookieSize = 16

	maxServerCookie = 32 // maximum size of other servers' cookies
	cookieVersion   = 1
	hashAt          = 8

	cookieLife  = time.Hour       // RFC 9018 section 4.3
	cookieAhead = 5 * time.Minute // also: the clocks of other servers at this address may be ahead
)

// cookieSecret creates and validates server cookies. A client that returns its cookie has received
// what was sent to its address (RFC 7873). The server keeps no state: a cookie is computed from the
// client cookie, the client's address, the time and the secret (RFC 9018). The zero cookieSecret is
// not secret.
type cookieSecret [2]uint64

// newCookieSecret returns a random secret.
func newCookieSecret() cookieSecret {
	var octets [16]byte
	_, _ = rand.Read(octets[:]) // never fails since Go 1.24, which crashes the program instead
	return cookieSecretOf(octets)
}

func cookieSecretOf(octets [16]byte) cookieSecret {
	return cookieSecret{binary.LittleEndian.Uint64(octets[:8]), binary.LittleEndian.Uint64(octets[8:])}
}

// isCookieSize reports whether size is valid for the data of a COOKIE option: a client cookie,
// optionally followed by a server cookie (RFC 7873 section 5.2.2).
func isCookieSize(size int) bool {
	return size == clientCookieSize || clientCookieSize+8 <= size && size <= clientCookieSize+maxServerCookie
}

// Append appends the server cookie for a client, which is serverCookieSize bytes long. client is
// the client cookie.
func (s cookieSecret) Append(dst, client []byte, from netip.Addr, now time.Time) []byte {
	return s.append(dst, client, from, uint32(now.Unix()))
}

func (s cookieSecret) append(dst, client []byte, from netip.Addr, at uint32) []byte {
	var room [clientCookieSize + hashAt + 16]byte
	hashed := append(append(room[:0], client[:clientCookieSize]...), cookieVersion, 0, 0, 0)
	hashed = binary.BigEndian.AppendUint32(hashed, at)
	dst = append(dst, hashed[clientCookieSize:]...)
	if from = from.Unmap(); from.Is4() {
		octets := from.As4()
		hashed = append(hashed, octets[:]...)
	} else {
		octets := from.As16()
		hashed = append(hashed, octets[:]...)
	}
	return binary.LittleEndian.AppendUint64(dst, siphash(s, hashed))
}

// IsValid reports whether a server cookie was issued to that client at that address in the last
// hour.
func (s cookieSecret) IsValid(server, client []byte, from netip.Addr, now time.Time) bool {
	if len(server) != serverCookieSize {
		return false
	}
	at := binary.BigEndian.Uint32(server[4:])
	age := time.Duration(int32(uint32(now.Unix())-at)) * time.Second // serial number arithmetic: RFC 1982
	if age > cookieLife || age < -cookieAhead {
		return false
	}
	var room [serverCookieSize]byte
	return subtle.ConstantTimeCompare(s.append(room[:0], client, from, at), server) == 1
}

// siphash returns the SipHash-2-4 hash (Aumasson and Bernstein, 2012) of data. RFC 9018 section 4.4
// requires this hash, so that the nameservers of one address can share a secret.
func siphash(key [2]uint64, data []byte) uint64 {
	s := state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573}
	last := uint64(len(data)) << 56
	for ; len(data) >= 8; data = data[8:] {
		s.add(binary.LittleEndian.Uint64(data))
	}
	for i, octet := range data {
		last |= uint64(octet) << (8 * i)
	}
	s.add(last)
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

type state struct{ v0, v1, v2, v3 uint64 }

func (s *state) add(word uint64) {
	s.v3 ^= word
	s.round()
	s.round()
	s.v0 ^= word
}

func (s *state) round() {
	s.v0 += s.v1
	s.v2 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v1
	s.v0 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
