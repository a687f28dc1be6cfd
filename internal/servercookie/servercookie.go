// Package servercookie makes the cookies that a nameserver gives its clients: who shows one again has received what was sent to
// its address (RFC 7873). Nothing is remembered of whom one was given to: it is made of the client's own cookie, its address,
// the time and a secret, in the way of RFC 9018.
//
// It is apart from dnsserver because it knows no messages.
package servercookie

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"net/netip"
	"time"
)

const (
	// ClientSize is how many octets a client's own cookie has: RFC 7873 section 4.
	ClientSize = 8
	// Size is how many a server cookie has: RFC 9018 section 4.
	Size = 16

	maxServerSize = 32 // what other servers may use
	version       = 1
	hashAt        = 8

	oldest   = time.Hour       // RFC 9018 section 4.3
	furthest = 5 * time.Minute // likewise: the other clocks of an address may be ahead
)

// A Secret is what cookies are made with. The zero Secret is known to everybody.
type Secret [2]uint64

// New returns a secret that nobody else has.
func New() Secret {
	var octets [16]byte
	_, _ = rand.Read(octets[:]) // never fails since Go 1.24: it ends the program instead
	return secretOf(octets)
}

func secretOf(octets [16]byte) Secret {
	return Secret{binary.LittleEndian.Uint64(octets[:8]), binary.LittleEndian.Uint64(octets[8:])}
}

// IsWellFormed reports whether the data of a COOKIE option may have that many octets: a client's cookie, and behind it a
// server's or nothing (RFC 7873 section 5.2.2).
func IsWellFormed(size int) bool {
	return size == ClientSize || ClientSize+8 <= size && size <= ClientSize+maxServerSize
}

// Append appends the server cookie for a client, which has Size octets. client is its own cookie.
func (s Secret) Append(dst, client []byte, from netip.Addr, now time.Time) []byte {
	return s.append(dst, client, from, uint32(now.Unix()))
}

func (s Secret) append(dst, client []byte, from netip.Addr, at uint32) []byte {
	var room [ClientSize + hashAt + 16]byte
	hashed := append(append(room[:0], client[:ClientSize]...), version, 0, 0, 0)
	hashed = binary.BigEndian.AppendUint32(hashed, at)
	dst = append(dst, hashed[ClientSize:]...)
	if from = from.Unmap(); from.Is4() {
		octets := from.As4()
		hashed = append(hashed, octets[:]...)
	} else {
		octets := from.As16()
		hashed = append(hashed, octets[:]...)
	}
	return binary.LittleEndian.AppendUint64(dst, siphash(s, hashed))
}

// IsValid reports whether a server cookie was given to that client at that address, in the last hour.
func (s Secret) IsValid(server, client []byte, from netip.Addr, now time.Time) bool {
	if len(server) != Size {
		return false
	}
	at := binary.BigEndian.Uint32(server[4:])
	age := time.Duration(int32(uint32(now.Unix())-at)) * time.Second // serial number arithmetic: RFC 1982
	if age > oldest || age < -furthest {
		return false
	}
	var room [Size]byte
	return subtle.ConstantTimeCompare(s.append(room[:0], client, from, at), server) == 1
}
