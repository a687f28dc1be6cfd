package cache

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A store holds a limited number of entries. Chains, which are read without a lock, find them. Each
// chain belongs to a shard, so that writers rarely wait for each other. The store neither parses
// nor changes what it stores.
type store struct {
	size   int
	bytes  int           // maximum; Bound may give the shards less
	stale  time.Duration // how long an expired entry is worth keeping
	seed   maphash.Seed  // random, so clients cannot choose the chain
	chains atomic.Pointer[chains]
	most   int          // maximum number of chains
	grows  atomic.Int32 // number of goroutines in grow; entries may be moving to other chains
	shards []shard      // a power of two; all entries of a chain belong to one shard

	// epoch counts the flushes. A flush raises it before it visits the shards. So an entry whose
	// query was sent in an earlier epoch is either rejected or found by the flush. It starts at a
	// random number, so that the store also rejects a response whose query was sent while another
	// store was in use: it may come from servers that are no longer configured.
	epoch atomic.Uint64
}

const (
	manyShards = 16
	smallSize  = 1024    // below this, one shard keeps the limits exact
	minChains  = 1 << 10 // in a larger store
	maxChains  = 1 << 20 // 8 MiB; a larger store has longer chains
)

// chains find entries. Their number is a power of two and not less than that of the shards. Entries
// of a chain are linked by next.
type chains []atomic.Pointer[entry]

func (c chains) of(hash uint64) *atomic.Pointer[entry] { return &c[hash&uint64(len(c)-1)] }

func newStore(size, bytes int, stale time.Duration) *store {
	shards := 1
	if size >= smallSize {
		shards = manyShards
	}
	s := &store{
		size: size, bytes: bytes, stale: stale, seed: maphash.MakeSeed(), shards: make([]shard, shards),
		most: min(1<<bits.Len(uint(size-1)), maxChains),
	}
	few := make(chains, min(s.most, minChains))
	s.chains.Store(&few)
	s.epoch.Store(rand.Uint64())
	for i := range s.shards {
		s.shards[i] = shard{maxEntries: size / shards, maxBytes: bytes / shards}
	}
	return s
}

func (s *store) hash(k key) uint64 {
	return maphash.Bytes(s.seed, k.question) + uint64(k.flags)
}

func (s *store) chainOf(hash uint64) *atomic.Pointer[entry] { return s.chains.Load().of(hash) }

func (s *store) shardOf(hash uint64) *shard { return &s.shards[hash&uint64(len(s.shards)-1)] }

// get returns the entry for k, or nil, and marks it as used. wasVisited reports whether it was
// marked before. The entry may have expired.
func (s *store) get(k key) (e *entry, wasVisited bool) {
	e = s.find(k, s.hash(k))
	if e == nil || e.visited.Load() { // a store would take the cache line from other processors
		return e, true
	}
	e.visited.Store(true)
	return e, false
}

func (s *store) find(k key, hash uint64) *entry {
	chains := s.chains.Load()
	e := chains.find(k, hash)
	if e == nil && (s.grows.Load() > 0 || s.chains.Load() != chains) { // a concurrent grow may have led us past it
		h := s.shardOf(hash)
		h.mu.Lock()
		defer h.mu.Unlock()
		e = s.chains.Load().find(k, hash)
	}
	return e
}

func (c chains) find(k key, hash uint64) *entry {
	e := c.of(hash).Load()
	for e != nil && (e.hash != hash || !e.key().equal(k)) {
		e = e.next.Load()
	}
	return e
}

// put stores e in place of the entry with the same key, unless a flush began after epoch. It evicts
// others if there is no room. It does not store an entry larger than the limit of a shard.
func (s *store) put(e *entry, epoch uint64) {
	e.hash = s.hash(e.key())
	h := s.shardOf(e.hash)
	h.mu.Lock()
	s.putLocked(h, e, epoch)
	entries := h.entries() * len(s.shards) // approximately
	h.mu.Unlock()
	if n := len(*s.chains.Load()); entries > n && n < s.most {
		s.grow(n)
	}
}

// grow doubles the number of chains if it is still n. A store with room for many entries seldom has
// that many, and lookups are faster in few pages of memory. A concurrent lookup may miss its entry,
// and repeats after grow. A new chain has the entries of one old chain in their order, so such a
// lookup still terminates.
func (s *store) grow(n int) {
	s.grows.Add(1)
	defer s.grows.Add(-1) // the new chains are in place by then
	for i := range s.shards {
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
	}
	old := *s.chains.Load()
	if len(old) != n {
		return // another goroutine was first
	}
	more := make(chains, 2*n)
	for i := range old {
		ends := [2]*atomic.Pointer[entry]{&more[i], &more[i+n]}
		for e := old[i].Load(); e != nil; {
			next, half := e.next.Load(), 0
			if e.hash&uint64(n) != 0 {
				half = 1
			}
			ends[half].Store(e)
			ends[half] = &e.next
			e = next
		}
		ends[0].Store(nil)
		ends[1].Store(nil)
	}
	s.chains.Store(&more)
}

func (s *store) putLocked(h *shard, e *entry, epoch uint64) {
	if s.epoch.Load() != epoch || e.bytes() > h.maxBytes {
		return
	}
	if old := s.chains.Load().find(e.key(), e.hash); old != nil { // nothing moves while the shard is locked
		// Queried again after it expired: the name is in use.
		e.visited.Store(old.visited.Load())
		s.removeLocked(h, old)
	}
	for h.isFullLocked(e) {
		s.removeLocked(h, h.victimLocked(e.stored, s.stale))
	}
	h.addLocked(e)
	chain := s.chainOf(e.hash)
	e.next.Store(chain.Load())
	chain.Store(e)
}

// removeLocked removes e from its shard and its chain. A concurrent lookup at e continues along the
// chain from there.
func (s *store) removeLocked(h *shard, e *entry) {
	h.removeLocked(e)
	link := s.chainOf(e.hash)
	for link.Load() != e {
		link = &link.Load().next
	}
	link.Store(e.next.Load())
}

func (s *store) addTo(stats *Stats) {
	stats.Size, stats.MaxBytes = s.size, s.bytes
	for i := range s.shards {
		h := &s.shards[i]
		h.mu.Lock()
		stats.Entries += h.entries()
		stats.Bytes += h.bytes
		stats.Insertions += h.insertions
		stats.Evictions += h.evictions
		stats.Denials += h.denials
		stats.DenialEvictions += h.denialEvictions
		h.mu.Unlock()
	}
}

// Bound lowers the memory limit of the responses below Config.MaxBytes. It removes entries that no
// longer fit, in the usual order of eviction, and returns their number.
func (c *Cache) Bound(bytes int) (removed int) {
	if c.store == nil {
		return 0
	}
	bytes = min(bytes, c.store.bytes)
	now := c.elapsed()
	for i := range c.store.shards {
		h := &c.store.shards[i]
		h.mu.Lock()
		h.maxBytes = bytes / len(c.store.shards)
		h.mu.Unlock()
		for c.store.shrink(h, now) {
			removed++
		}
	}
	return removed
}

// shrink removes one entry of a shard above its limit. It returns false if the shard is within it.
// The shard is unlocked between calls, so queries are not held up.
func (s *store) shrink(h *shard, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries() == 0 || h.bytes <= h.maxBytes {
		return false
	}
	s.removeLocked(h, h.victimLocked(now, s.stale))
	return true
}
