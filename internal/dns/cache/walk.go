package cache

import (
	"encoding/binary"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/records"
)

// A Remembered is one remembered response as it was at one time.
type Remembered struct {
	Entry
	DO, CD     bool // of the queries that it is for
	IsNegative bool // NXDOMAIN, NODATA, or a failure

	entry *entry
}

// Walk calls visit with each response that may be given out, in no order, until it returns false. No lock is held meanwhile, and no
// more than a few entries are looked at in advance: what comes, goes, or is replaced by then may be missed. visit may take its time,
// and may call the Cache.
func (c *Cache) Walk(visit func(Remembered) bool) {
	if c.store == nil {
		return
	}
	c.walk(visit, c.mayBeGiven)
}

// WalkFailures is Walk for the failures that were remembered at most that long ago, also those that are over: each stays in its place
// until another response wants it.
func (c *Cache) WalkFailures(within time.Duration, visit func(Remembered) bool) {
	if c.store == nil {
		return
	}
	c.walk(visit, func(e *entry, now time.Duration) bool { return e.isFailure() && now-e.stored <= within })
}

func (c *Cache) walk(visit func(Remembered) bool, wanted func(e *entry, now time.Duration) bool) {
	var found []*entry
	n := len(*c.store.chains.Load())
	for i := range n {
		found = c.store.gatherOf(found[:0], i, n)
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

// mayBeGiven reports whether the entry may be given out: until its TTLs end, and as a stale one where its name has no limit.
func (c *Cache) mayBeGiven(e *entry, now time.Duration) bool {
	if e.isUsable(now, 0) {
		return true
	}
	return e.isUsable(now, c.stale.life) && c.limits.limit(e.describe(now).Name) == 0
}

// gatherOf appends the entries that were in chain i when there were n, or would have been.
func (s *store) gatherOf(found []*entry, i, n int) []*entry {
	h := s.shardOf(uint64(i))
	h.mu.Lock()
	defer h.mu.Unlock()
	chains := *s.chains.Load()
	for ; i < len(chains); i += n {
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

// answers is the function of that name on the wire: the response has what was asked for.
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

// Msg is the response as a client would get it, without regard to the letters' case of its question; where its TTLs have ended they are 0.
// nil: it cannot be read. The caller owns it.
func (r Remembered) Msg() *dns.Msg {
	wire := append([]byte(nil), r.entry.message()...)
	r.entry.grow(wire, r.seconds(), 0)
	m, err := records.Unpack(wire)
	if err != nil {
		return nil
	}
	if r.TTL <= 0 {
		eachTTL(m, func(uint32) uint32 { return 0 })
	}
	return m
}

// seconds is the age, as far as TTLs can be brought down by it.
func (r Remembered) seconds() uint32 {
	if r.TTL <= 0 {
		return 0
	}
	return uint32(max(0, r.Age) / time.Second)
}
