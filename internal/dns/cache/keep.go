package cache

import (
	"bytes"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Epoch is to be taken before a response is asked for that Keep is to remember.
func (c *Cache) Epoch() uint64 {
	if c.store == nil {
		return 0
	}
	return c.store.epoch.Load()
}

// HasStale reports whether ServeDNS may answer q with a response whose TTLs have ended.
func (c *Cache) HasStale(q *dnsserver.WireQuery) bool {
	if c.stale.life == 0 {
		return false
	}
	var room room
	e, _ := c.get(q, q.AppendKey(room[:0]))
	return e != nil && e.isUsable(c.elapsedAt(q.Arrived), c.stale.life)
}

// Missed counts a query that AppendResponse had no answer to, and that is asked for elsewhere than by ServeDNS.
func (c *Cache) Missed() { c.misses.Add(1) }

// A Response is one that came for queries on the wire. It does not change.
type Response struct{ entry *entry }

// Keep remembers the response to q, if it may be, and returns it for all who have asked the same. It is from server, and was
// asked for after epoch. ok is false for one that is no message: it came from an upstream nameserver. m belongs to the cache
// then.
func (c *Cache) Keep(q dnsserver.WireQuery, m *dns.Msg, server nameserver.Server, epoch uint64) (response Response, ok bool) {
	var room room
	k := wireKey(&q, q.AppendKey(room[:0]))
	qname, err := k.name()
	if err != nil {
		return Response{}, false
	}
	asked := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(qname, k.qtype()), AnsweredBy: server}
	asked.Name, _ = dnsname.Parse(qname) // zero when it is none, as dnsserver has it
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

// KeepWire is Keep for a response to q that was not parsed and came at that time, with the question that r was read for. r is
// copied, its TTLs are changed in place. The zero time is now.
func (c *Cache) KeepWire(q dnsserver.WireQuery, r dnswire.Response, server nameserver.Handle, at time.Time, epoch uint64) (response Response) {
	var room room
	k := wireKey(&q, q.AppendKey(room[:0]))
	lifetime := c.limits.rememberWire(k.dnsName, r)
	e := &entry{
		wire: bytes.Clone(r.Message), end: uint16(r.End), flags: k.flags,
		server: server, stored: c.elapsedAt(at), life: lifetime,
	}
	copy(e.wire, []byte{0, 0, bitQR, r.Message[3] & (bitRA | bitAD | maskRcode)})
	e.wire[10], e.wire[11] = 0, 0 // the OPT record is gone
	copy(e.wire[dnswire.HeaderSize:], k.question)
	if lifetime > 0 && c.store != nil {
		c.store.put(e, epoch)
	}
	return Response{e}
}

// dnsName is the qname; zero when it is no dnsname.Name.
func (k key) dnsName() dnsname.Name {
	var room [dnswire.MaxName]byte
	if text, ok := dnswire.AppendText(room[:0], k.question[:len(k.question)-4]); ok {
		return dnsname.Canonical(string(text))
	}
	text, _ := k.name()
	name, _ := dnsname.Parse(text)
	return name
}

// Append appends the response as q is to get it, as AppendResponse does.
func (r Response) Append(dst []byte, q *dnsserver.WireQuery, highest uint32) []byte {
	return r.entry.appendTo(dst, q, 0, highest)
}
