package cache

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsname"
)

// ErrDamaged says that octets are none that Dump made.
var ErrDamaged = errors.New("damaged cache entries")

// Dump writes down what is remembered, for Restore of another Cache: in each shard the newest first, and of all no more
// than limit octets.
func (c *Cache) Dump(limit int) []byte {
	if c.store == nil {
		return nil
	}
	var data []byte
	now := c.now()
	for i := range c.store.shards {
		room := (limit - len(data)) / (len(c.store.shards) - i)
		data = c.store.shards[i].dump(data, len(data)+room, now, c.stale)
	}
	return data
}

func (h *shard) dump(data []byte, limit int, now time.Time, stale time.Duration) []byte {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for e := h.newest; e != nil; e = e.prev {
		if !e.isUsable(now, stale) {
			continue
		}
		whole := len(data)
		if data = e.dump(data, now); len(data) > limit {
			return data[:whole]
		}
	}
	return data
}

// dump appends the entry: flags, qtype, age and life in milliseconds, name, server and message, each with its length
// before it. An entry that cannot be packed is left out.
func (e *entry) dump(data []byte, now time.Time) []byte {
	wire, err := e.msg.Pack()
	if err != nil {
		return data
	}
	var flags uint64
	if e.key.do {
		flags |= dumpDO
	}
	if e.key.cd {
		flags |= dumpCD
	}
	age := max(0, now.Sub(e.stored))
	for _, n := range []uint64{flags, uint64(e.key.qtype), uint64(age.Milliseconds()), uint64(e.life.Milliseconds())} {
		data = binary.AppendUvarint(data, n)
	}
	for _, text := range []string{e.key.name, e.server.String(), string(wire)} {
		data = append(binary.AppendUvarint(data, uint64(len(text))), text...)
	}
	return data
}

const (
	dumpDO = 1 << iota
	dumpCD
)

// Restore remembers what Dump has written down, as it is after another away, and returns how many entries those are. What
// has expired by then, what keep refuses, and what is known better already is left out. With an error nothing is taken
// over. keep must not call the Cache; nil takes all.
func (c *Cache) Restore(data []byte, away time.Duration, keep func(Entry) bool) (int, error) {
	if c.store == nil {
		return 0, nil
	}
	var all []*entry
	now := c.now()
	for r := (dumpReader{rest: data}); len(r.rest) > 0; {
		e := r.entry(now.Add(-away))
		if r.rest == nil {
			return 0, ErrDamaged
		}
		if e != nil {
			all = append(all, e)
		}
	}
	taken, epoch := 0, c.store.epoch.Load()
	for _, e := range slices.Backward(all) {
		if !e.isUsable(now, c.stale) || c.store.get(e.key) != nil || keep != nil && !keep(e.describe(now)) {
			continue
		}
		c.store.put(e, epoch)
		taken++
	}
	return taken, nil
}

// dumpReader reads what dump wrote.
type dumpReader struct{ rest []byte }

// entry reads one, which was dumped at the time at. It is nil for one that cannot be used: an upstream nameserver may send
// what is read, and packed again is not.
func (r *dumpReader) entry(at time.Time) *entry {
	flags, qtype, age, life := r.number(dumpDO|dumpCD), r.number(1<<16-1), r.number(maxDumpAge), r.number(maxDumpAge)
	name, from, wire := r.text(), r.text(), r.text()
	e := &entry{
		key: key{name: name, qtype: uint16(qtype), do: flags&dumpDO != 0, cd: flags&dumpCD != 0},
		msg: new(dns.Msg), stored: at.Add(-time.Duration(age) * time.Millisecond), life: time.Duration(life) * time.Millisecond,
	}
	if e.server.UnmarshalText([]byte(from)) != nil || e.msg.Unpack([]byte(wire)) != nil || !e.isWhole() {
		return nil
	}
	if parsed, err := dnsname.Parse(name); err == nil {
		e.name = parsed // as dnsserver does; others have none
	}
	e.bytes = size(e.msg) + len(name)
	return e
}

// isWhole reports whether the entry is one that newEntry could have made: its TTLs last as long as it does.
func (e *entry) isWhole() bool {
	whole := e.key.name != "" && len(e.msg.Question) == 0
	eachTTL(e.msg, func(ttl uint32) uint32 {
		whole = whole && time.Duration(ttl)*time.Second >= e.life
		return ttl
	})
	return whole && e.msg.IsEdns0() == nil
}

// maxDumpAge is in milliseconds: a TTL has 31 bits (RFC 2181 section 8).
const maxDumpAge = 1000 << 31

// number reads a number; after a failure rest is nil.
func (r *dumpReader) number(limit uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > limit {
		r.rest = nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *dumpReader) text() string {
	n := r.number(1 << 20)
	if n > uint64(len(r.rest)) {
		r.rest = nil
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}
