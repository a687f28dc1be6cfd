package cache

import (
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Epoch returns the current epoch. Get it before sending a query whose response goes to Keep.
func (c *Cache) Epoch() uint64 {
	if c.store == nil {
		return 0
	}
	return c.store.epoch.Load()
}

// HasStale reports whether ServeDNS may answer q with a stale response.
func (c *Cache) HasStale(q *dnsserver.WireQuery) bool {
	if c.stale.life == 0 {
		return false
	}
	var room room
	e, _ := c.get(q, q.AppendKey(room[:0]))
	return e != nil && e.isUsable(c.elapsedAt(q.Arrived), c.stale.life)
}

// Missed counts a query that AppendResponse could not answer and that does not go through ServeDNS.
func (c *Cache) Missed() { c.misses.Add(1) }

// A Response is a response to queries in wire format. It is immutable.
type Response struct{ entry *entry }

// Keep stores the response m of server to q if possible, and returns it for all clients with the
// same question. epoch is the epoch before the query was sent. ok is false if m cannot be packed,
// because an upstream nameserver may send invalid data. The cache owns m afterwards.
func (c *Cache) Keep(q dnsserver.WireQuery, m *dns.Msg, server nameserver.Server, epoch uint64) (response Response, ok bool) {
	var room room
	k := wireKey(&q, q.AppendKey(room[:0]))
	qname, err := k.name()
	if err != nil {
		return Response{}, false
	}
	asked := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(qname, k.qtype()), AnsweredBy: server}
	asked.Name, _ = dnsname.Parse(qname) // zero if invalid, as in dnsserver
	lifetime := c.limits.remember(asked, m)
	inQuestionsCase(m, qname)
	e := newEntry(k, asked, m, c.elapsed(), lifetime)
	if e == nil {
		return Response{}, false
	}
	if lifetime > 0 && c.store != nil {
		c.store.put(e, epoch)
	}
	return Response{e}, true
}

// KeepWire is Keep for an unparsed response to q that arrived at the given time; the zero time
// means now. r must have been read for the same question, and limit is Config.Limit for its qname.
// KeepWire copies r, but changes its TTLs in place.
func (c *Cache) KeepWire(q dnsserver.WireQuery, r dnswire.Response, limit time.Duration, server nameserver.Handle, at time.Time, epoch uint64) (response Response) {
	var room room
	k := wireKey(&q, q.AppendKey(room[:0]))
	lifetime := c.limits.rememberWire(limit, r)
	e := entryOf(r.Message)
	e.end, e.flags, e.server, e.stored, e.life = uint16(r.End), k.flags, server, c.elapsedAt(at), lifetime
	copy(e.wire, []byte{0, 0, bitQR, r.Message[3] & (bitRA | bitAD | maskRcode)})
	e.wire[10], e.wire[11] = 0, 0 // the OPT record is removed
	copy(e.wire[dnswire.HeaderSize:], k.question)
	if lifetime > 0 && c.store != nil {
		c.store.put(e, epoch)
	}
	return Response{e}
}

// Append appends the response for the client of q, in the same way as AppendResponse.
func (r Response) Append(dst []byte, q *dnsserver.WireQuery, highest uint32) []byte {
	return r.entry.appendTo(dst, q, 0, highest)
}
