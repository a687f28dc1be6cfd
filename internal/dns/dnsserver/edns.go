package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

const (
	// optFixed is the size of an OPT record without options in bytes, including the root name (RFC
	// 6891 section 6.1.2).
	optFixed = 11
	// optDO is the DO bit in the eighth byte of an OPT record (RFC 4035 section 3.2.1, RFC 6891
	// section 6.1.3).
	optDO = 1 << 7
)

// extension is the content of the OPT record in the additional section of a query. Offsets into the
// message are 0 if the field is absent.
type extension struct {
	fixed  int  // offset of the type
	size   int  // response size that the client offers, in bytes
	cookie int  // offset of the data of the first COOKIE option
	shown  int  // bytes of that data: client cookie and, if sent, server cookie
	do     bool // the DO bit
	isLast bool // there is no additional record except the OPT record, if any, and nothing after it
}

// readExtension reads the additional section, which begins at offset at. The rcode is the fault:
// RFC 6891 sections 6.1.1 (at most one OPT record, owned by the root) and 6.1.3 (version). Other
// records are skipped, so that an OPT record after them is found.
func readExtension(wire []byte, at int) (e extension, rcode int) {
	n := int(count(wire, 10))
	e.isLast = n == 0 && at == len(wire)
	for range n {
		data, end := dnswire.Find(wire, at)
		switch {
		case end == 0:
			return e, dns.RcodeFormatError
		case count(wire, data-10) != dns.TypeOPT:
		case e.fixed > 0 || !isRoot(wire, at):
			return e, dns.RcodeFormatError
		default:
			e.isLast = n == 1 && end == len(wire) && at+optFixed == data
			if rcode = e.read(wire[:end], data); rcode == dns.RcodeFormatError {
				return e, rcode
			}
		}
		at = end
	}
	return e, rcode
}

// read reads an OPT record. Its data runs from offset data to the end of wire.
func (e *extension) read(wire []byte, data int) (rcode int) {
	fixed := wire[data-10 : data]
	e.fixed, e.size, e.do = data-10, int(count(fixed, 2)), fixed[6]&optDO != 0
	switch {
	case fixed[5] != 0:
		return dns.RcodeBadVers // in other versions the rest may mean something else
	case !e.readOptions(wire, data):
		return dns.RcodeFormatError
	}
	return dns.RcodeSuccess
}

// isRoot reports whether the name at offset at is the root, directly or through a compression
// pointer.
func isRoot(wire []byte, at int) bool {
	if wire[at] >= 0xc0 {
		to := int(count(wire, at) & 0x3fff)
		return headerSize <= to && to < at && wire[to] == 0
	}
	return wire[at] == 0
}

// readOptions reports whether the options, which run from offset at to the end of wire, are
// well-formed. Only known options are checked. All others are ignored, whatever they contain (RFC
// 6891 section 6.1.2), including a TCP keepalive over UDP (RFC 7828 section 3.2.1).
func (e *extension) readOptions(wire []byte, at int) bool {
	for at < len(wire) {
		data := at + 4
		if data > len(wire) {
			return false
		}
		size := int(count(wire, at+2))
		end := data + size
		if end > len(wire) {
			return false
		}
		switch count(wire, at) {
		case dns.EDNS0COOKIE:
			if e.cookie > 0 {
				break // the first one wins
			}
			if !isCookieSize(size) {
				return false
			}
			e.cookie, e.shown = data, size
		case dns.EDNS0SUBNET:
			if !isSubnet(wire[data:end]) {
				return false
			}
		}
		at = end
	}
	return true
}

// isSubnet reports whether a client subnet option is well-formed: as many bytes as the prefix
// needs, trailing bits 0, and scope 0, because the scope is for responses (RFC 7871 sections 6 and
// 7.1). The subnet is not used.
func isSubnet(data []byte) bool {
	if len(data) < 4 || data[3] != 0 {
		return false
	}
	bits, address := int(data[2]), data[4:]
	family := int(count(data, 0)) // dig +subnet=0 sends family 0 with no bits
	longest := [...]int{0, 32, 128}
	if family >= len(longest) || bits > longest[family] || len(address) != (bits+7)/8 {
		return false
	}
	return bits%8 == 0 || address[len(address)-1]<<(bits%8) == 0
}

// findOPT returns the offset of the data of the first OPT record in the additional section, or 0 if
// none can be found. The message may be malformed.
func findOPT(wire []byte) int {
	at := headerSize
	for range count(wire, 4) {
		for at < len(wire) && wire[at] != 0 && wire[at] <= maxLabel {
			at += 1 + int(wire[at])
		}
		if at += 5; at > len(wire) || wire[at-5] != 0 { // compression pointers are not followed
			return 0
		}
	}
	before := int(count(wire, 6)) + int(count(wire, 8))
	for i := range before + int(count(wire, 10)) {
		data, end := dnswire.Find(wire, at)
		switch {
		case end == 0:
			return 0
		case i >= before && count(wire, data-10) == dns.TypeOPT:
			return data
		}
		at = end
	}
	return 0
}

// withoutOptions returns the part of the message that the Handler sees: the header, the question,
// which ends at end, and the OPT record without options.
func (e extension) withoutOptions(wire []byte, end int) []byte {
	m := append(make([]byte, 0, end+optFixed), wire[:end]...)
	clear(m[10:headerSize])
	if e.fixed > 0 {
		m[11] = 1
		m = append(append(append(m, 0), wire[e.fixed:e.fixed+8]...), 0, 0)
	}
	return m
}

// shortened returns a query with what its answer needs: the question and an OPT record with the
// cookie. It fits in shortQuery bytes. A query with a fault is returned unchanged, because its
// answer waits for nothing. cookie is the offset of the client cookie in short, or 0 without one.
func shortened(wire []byte) (short []byte, cookie uint16) {
	end := questionEnd(wire)
	e, rcode := readExtension(wire, end)
	if rcode != dns.RcodeSuccess {
		return wire, uint16(e.cookie)
	}
	return e.shortened(wire, end)
}

// shortened returns what the function of that name does, for a query without a fault whose question
// ends at end.
func (e extension) shortened(wire []byte, end int) (short []byte, cookie uint16) {
	short = e.withoutOptions(wire, end)
	if e.cookie > 0 {
		binary.BigEndian.PutUint16(short[len(short)-2:], uint16(4+e.shown))
		short = append(short, wire[e.cookie-4:e.cookie+e.shown]...)
		cookie = uint16(len(short) - e.shown)
	}
	return short, cookie
}

// asksForCookie reports whether a message without a question asks only for a server cookie (RFC
// 7873 section 5.4). RFC 9619 allows no other message without a question.
func asksForCookie(wire []byte) bool {
	if count(wire, 4) != 0 || count(wire, 6) != 0 || count(wire, 8) != 0 || count(wire, 10) == 0 {
		return false
	}
	e, rcode := readExtension(wire, headerSize)
	return rcode == dns.RcodeBadVers || rcode == dns.RcodeSuccess && e.cookie > 0
}
