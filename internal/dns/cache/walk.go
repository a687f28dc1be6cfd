package cache

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// A Remembered is a snapshot of one stored response.
type Remembered struct {
	Entry
	DO, CD     bool // flags of its queries
	IsNegative bool // NXDOMAIN, NODATA, or a failure

	entry *entry
}

// Walk calls visit with each response that may be served, in no particular order, until visit
// returns false. It holds no lock while visit runs and reads only a few entries ahead, so it may
// miss entries that are added, removed or replaced during the walk. visit may take its time and may
// call the Cache.
func (c *Cache) Walk(visit func(Remembered) bool) { c.walk(visit, c.mayBeGiven) }

// WalkFailures is Walk for failures stored within the given time, including expired ones. A failure
// stays until another response needs its place.
func (c *Cache) WalkFailures(within time.Duration, visit func(Remembered) bool) {
	c.walk(visit, func(e *entry, now time.Duration) bool { return e.isFailure() && now-e.stored <= within })
}

func (c *Cache) walk(visit func(Remembered) bool, wanted func(e *entry, now time.Duration) bool) {
	if c.store == nil {
		return
	}
	var found []*entry
	n := len(*c.store.chains.Load())
	for i := range n {
		found = c.store.gather(found[:0], i, n, math.MaxInt) // chain i, or those that it was split into
		if len(found) == 0 {
			continue
		}
		now := c.elapsed()
		for _, e := range found {
			if wanted(e, now) && !visit(e.remembered(now)) {
				return
			}
		}
	}
}

// mayBeGiven reports whether the entry may be served: live or, if its name has no limit, stale.
func (c *Cache) mayBeGiven(e *entry, now time.Duration) bool {
	if e.isUsable(now, 0) {
		return true
	}
	return e.isUsable(now, c.stale.life) && c.limits.limit(e.describe(now).Name) == 0
}

// gather appends the entries of every step-th chain from first on, before end. All of them belong
// to one shard, because step is a multiple of the number of shards.
func (s *store) gather(found []*entry, first, step, end int) []*entry {
	h := s.shardOf(uint64(first))
	h.mu.Lock()
	defer h.mu.Unlock()
	chains := *s.chains.Load()
	for i := first; i < min(end, len(chains)); i += step {
		found = appendChain(found, chains[i].Load())
	}
	return found
}

func appendChain(found []*entry, e *entry) []*entry {
	for ; e != nil; e = e.next.Load() {
		found = append(found, e)
	}
	return found
}

func (e *entry) remembered(now time.Duration) Remembered {
	return Remembered{
		Entry: e.describe(now), DO: e.flags&keyDO != 0, CD: e.flags&keyCD != 0, IsNegative: !e.answers(), entry: e,
	}
}

// answers is the wire version of the function answers: it reports whether the response has the
// requested type.
func (e *entry) answers() bool {
	if e.wire[3]&maskRcode != dns.RcodeSuccess {
		return false
	}
	at := int(e.end)
	for range binary.BigEndian.Uint16(e.wire[6:]) {
		ttl, end := dnswire.Record(e.wire, at)
		if binary.BigEndian.Uint16(e.wire[ttl-4:]) == e.key().qtype() {
			return true
		}
		at = end
	}
	return false
}

// Msg returns the response as a client would get it, in any letter case; an expired one has TTLs of
// 0. It returns nil if the response cannot be parsed. The caller owns it.
func (r Remembered) Msg() *dns.Msg {
	wire := append([]byte(nil), r.entry.message()...)
	r.entry.grow(wire, r.seconds(), 0)
	m, err := dnswire.Unpack(wire)
	if err != nil {
		return nil
	}
	if r.TTL <= 0 {
		eachTTL(m, func(uint32) uint32 { return 0 })
	}
	return m
}

// seconds returns the age to subtract from the TTLs.
func (r Remembered) seconds() uint32 {
	if r.TTL <= 0 {
		return 0
	}
	return uint32(max(0, r.Age) / time.Second)
}
