package cache

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnswire"
)

// Bits of the third and fourth octets of a header: RFC 1035 section 4.1.1, RFC 4035 sections 3.1.6 and 3.2.2.
const (
	bitQR     = 1 << 7
	bitRD     = 1 << 0
	bitRA     = 1 << 7
	bitAD     = 1 << 5
	bitCD     = 1 << 4
	maskRcode = 0xf
)

// AppendResponse answers a query on the wire from memory: it appends the response to dst and returns it. With ok false
// nothing was appended, and ServeDNS knows what to do. It is the response that dnsserver makes of what ServeDNS returns; a
// TTL above highest seconds in its answer and authority sections becomes that, 0 means that none does.
//
// Nothing is allocated when dst has room for the response, no lock is taken, and nothing is written that other processors
// read, but the mark on an entry that has none.
func (c *Cache) AppendResponse(dst []byte, q dnsserver.WireQuery, highest uint32) (response []byte, ok bool) {
	if c.store == nil {
		return dst, false
	}
	var room room
	e, wasVisited := c.store.get(room.wireKey(q))
	if e == nil {
		return dst, false
	}
	now := c.elapsed()
	age, live := e.age(now)
	if !live {
		return dst, false
	}
	c.hits.add()
	if c.prefetches && wasVisited && e.isNearEnd(now) {
		c.prefetch(e)
	}
	return e.appendTo(dst, q, age, highest), true
}

// appendTo appends the entry as the response to a query on the wire.
func (e *entry) appendTo(dst []byte, q dnsserver.WireQuery, age, highest uint32) []byte {
	limit := q.Limit
	if q.EDNS {
		limit -= optSize
	}
	cut := dnswire.Fit(e.wire, int(e.end), limit)
	start := len(dst)
	dst = append(dst, e.wire[:cut.End]...)
	m := dst[start:]
	copy(m, q.Msg[:2]) // the ID
	m[2] = bitQR | q.Msg[2]&bitRD
	m[3] = bitRA | q.Msg[3]&bitCD | e.wire[3]&maskRcode
	if q.DO || q.Msg[3]&bitAD != 0 { // RFC 6840 section 5.8
		m[3] |= e.wire[3] & bitAD
	}
	copy(m[dnswire.HeaderSize:], q.Question())
	e.grow(m, age, highest)
	cut.SetHeader(m, q.EDNS)
	switch {
	case q.EDNS && e.isFailure():
		dst = appendOPT(dst, q.DO, cachedError...)
	case q.EDNS:
		dst = appendOPT(dst, q.DO)
	}
	return dst
}

// cachedError is the option that says so, RFC 8914 section 4.14.
var cachedError = []byte{0, dns.EDNS0EDE, 0, 2, 0, byte(dns.ExtendedErrorCodeCachedError)}

const (
	optSize = 11   // RFC 6891 section 6.1.2
	udpSize = 1232 // as dnsserver offers
)

func appendOPT(dst []byte, do bool, options ...byte) []byte {
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint16(dst, dns.TypeOPT)
	dst = binary.BigEndian.AppendUint16(dst, udpSize)
	flags := uint32(0)
	if do {
		flags = 1 << 15
	}
	dst = binary.BigEndian.AppendUint32(dst, flags)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(options)))
	return append(dst, options...)
}
