package cache

import (
	"encoding/binary"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// Bits of the third and fourth bytes of a header: RFC 1035 section 4.1.1, RFC 4035 sections 3.1.6
// and 3.2.2.
const (
	bitQR     = 1 << 7
	bitRD     = 1 << 0
	bitRA     = 1 << 7
	bitAD     = 1 << 5
	bitCD     = 1 << 4
	maskRcode = 0xf
)

// AppendResponse answers a query in wire format from the cache. It appends the response to dst and
// returns the result. If ok is false, it appended nothing, and the caller uses ServeDNS. The
// response equals what dnsserver makes of the result of ServeDNS. highest caps the TTLs in the
// answer and authority sections, in seconds; 0 means no cap.
//
// It allocates nothing if dst has room for the response, takes no lock, and writes no memory that
// other processors read, except for the mark of an entry without one.
func (c *Cache) AppendResponse(dst []byte, q dnsserver.WireQuery, highest uint32) (response []byte, ok bool) {
	var room room
	return c.AppendAndMark(dst, &q, q.AppendKey(room[:0]), highest, 0)
}

// AppendAndMark is AppendResponse, and lets AppendMarked answer the question from now on. question
// is the result of the query's AppendKey.
func (c *Cache) AppendAndMark(dst []byte, q *dnsserver.WireQuery, question []byte, highest, mark uint32) (response []byte, ok bool) {
	e, wasVisited := c.get(q, question)
	if e == nil {
		return dst, false
	}
	response, ok = c.appendEntry(dst, e, q, highest, wasVisited)
	if ok && e.mark.Load() != mark {
		e.mark.Store(mark)
	}
	return response, ok
}

// AppendMarked is AppendResponse for questions that AppendAndMark has answered with the same mark,
// which must not be 0. The caller's earlier checks are valid as long as it passes this mark, so it
// need not repeat them.
func (c *Cache) AppendMarked(dst []byte, q *dnsserver.WireQuery, question []byte, highest, mark uint32) (response []byte, ok bool) {
	e, wasVisited := c.get(q, question)
	if e == nil || e.mark.Load() != mark {
		return dst, false
	}
	return c.appendEntry(dst, e, q, highest, wasVisited)
}

func (c *Cache) get(q *dnsserver.WireQuery, question []byte) (e *entry, wasVisited bool) {
	if c.store == nil {
		return nil, false
	}
	return c.store.get(wireKey(q, question))
}

// appendEntry appends the entry if it is live.
func (c *Cache) appendEntry(dst []byte, e *entry, q *dnsserver.WireQuery, highest uint32, wasVisited bool) (response []byte, ok bool) {
	now := c.elapsedAt(q.Arrived)
	age, live := e.age(now)
	if !live {
		return dst, false
	}
	c.hit(e)
	if c.prefetches && wasVisited && e.isNearEnd(now) {
		c.prefetch(e)
	}
	return e.appendTo(dst, q, age, highest), true
}

// elapsedAt returns elapsed at a recent time, because reading the clock takes as long as copying a
// response.
func (c *Cache) elapsedAt(now time.Time) time.Duration {
	if now.IsZero() || c.began.IsZero() {
		return c.elapsed()
	}
	return now.Sub(c.began)
}

// appendTo appends the entry as the response to a query in wire format.
func (e *entry) appendTo(dst []byte, q *dnsserver.WireQuery, age, highest uint32) []byte {
	limit := q.Limit
	if q.EDNS {
		limit -= optSize
	}
	message := e.message()
	size, cut := len(message), dnswire.Cut{}
	if size > limit {
		cut = dnswire.Fit(message, int(e.end), limit)
		size = cut.End
	}
	start := len(dst)
	dst = append(dst, message[:size]...)
	m := dst[start:]
	copy(m, q.Msg[:2]) // the ID
	m[2] = bitQR | q.Msg[2]&bitRD
	m[3] = bitRA | q.Msg[3]&bitCD | e.wire[3]&maskRcode
	if q.DO || q.Msg[3]&bitAD != 0 { // RFC 6840 section 5.8
		m[3] |= e.wire[3] & bitAD
	}
	copy(m[dnswire.HeaderSize:], q.Question())
	e.grow(m, age, highest)
	if size < len(message) {
		cut.SetHeader(m, false)
	}
	if !q.EDNS {
		return dst
	}
	binary.BigEndian.PutUint16(m[arCount:], binary.BigEndian.Uint16(m[arCount:])+1)
	if e.isFailure() {
		return appendOPT(dst, q.DO, cachedError, e.cause())
	}
	return appendOPT(dst, q.DO, nil, nil)
}

// arCount is the offset of the count of additional records in a header.
const arCount = 10

// cachedError is the Cached Error option (RFC 8914 section 4.14) with the text of errRemembered.
var cachedError = append([]byte{0, dns.EDNS0EDE, 0, byte(2 + len(dnsserver.FailedBefore)), 0, byte(dns.ExtendedErrorCodeCachedError)}, dnsserver.FailedBefore...)

const (
	optSize = 11   // RFC 6891 section 6.1.2
	udpSize = 1232 // the same as dnsserver's
)

func appendOPT(dst []byte, do bool, first, second []byte) []byte {
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint16(dst, dns.TypeOPT)
	dst = binary.BigEndian.AppendUint16(dst, udpSize)
	flags := uint32(0)
	if do {
		flags = 1 << 15
	}
	dst = binary.BigEndian.AppendUint32(dst, flags)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(first)+len(second)))
	return append(append(dst, first...), second...)
}
