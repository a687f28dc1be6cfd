package cache

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A store holds entries within bounds. They are found by chains, which are read without a lock; and belong to shards, so
// that those who change them seldom wait for each other. What it stores it neither reads nor changes.
type store struct {
	size   int
	bytes  int           // what it has at most; a shard may have less
	stale  time.Duration // for how long what has expired is worth its room
	seed   maphash.Seed  // random: who asks cannot choose the chain
	chains atomic.Pointer[chains]
	most   int          // chains that there may be
	grows  atomic.Int32 // how many goroutines are in grow: entries may be on their way to other chains
	shards []shard      // a power of two; those of a chain belong to one

	// epoch counts the flushes. It is raised before the shards are gone through, so
	// that an entry whose response was asked for in an earlier epoch is either
	// refused or found by the flush. It begins at random: a response that was asked for while another store was in use, of
	// servers that are asked no more, is refused too.
	epoch atomic.Uint64
}

const (
	manyShards = 16
	smallSize  = 1024    // below this one shard keeps the bounds exact
	minChains  = 1 << 10 // of a store that is larger
	maxChains  = 1 << 20 // 8 MiB; a larger store has longer ones
)

// chains are where entries are found. They are a power of two, and not fewer than shards; their entries are linked by next.
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

// get returns the entry for k, nil when there is none, and marks it as used; wasVisited says that it was before. It may have
// expired.
func (s *store) get(k key) (e *entry, wasVisited bool) {
	e = s.find(k, s.hash(k))
	if e == nil || e.visited.Load() { // a store would take the line from other processors
		return e, true
	}
	e.visited.Store(true)
	return e, false
}

func (s *store) find(k key, hash uint64) *entry {
	chains := s.chains.Load()
	e := chains.find(k, hash)
	if e == nil && (s.grows.Load() > 0 || s.chains.Load() != chains) { // we may have been led past it
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

// put stores e in place of what is there for its key, unless a flush began after epoch.
// Others go when there is no room. An entry beyond a shard's bytes is not stored.
func (s *store) put(e *entry, epoch uint64) {
	e.hash = s.hash(e.key())
	h := s.shardOf(e.hash)
	h.mu.Lock()
	s.putLocked(h, e, epoch)
	entries := h.entries() * len(s.shards) // about
	h.mu.Unlock()
	if n := len(*s.chains.Load()); entries > n && n < s.most {
		s.grow(n)
	}
}

// grow makes twice as many chains, if there are n. A store with room for many entries seldom has as many: what stands in few pages
// of memory is found sooner. Who looks for an entry meanwhile may be led past it, and looks again when all have arrived: a new chain has
// the entries of one old chain in their order, so that he comes to an end.
func (s *store) grow(n int) {
	s.grows.Add(1)
	defer s.grows.Add(-1) // the chains are the new ones by then
	for i := range s.shards {
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
	}
	old := *s.chains.Load()
	if len(old) != n {
		return // another has
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
		// Asked for again after it expired: a name in use.
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

// removeLocked removes e from its shard and its chain. Who has found it goes on along the chain from there.
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
