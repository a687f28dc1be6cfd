package cache

import (
	"hash/maphash"
	"sync/atomic"
)

// A store holds entries within bounds, in shards, so that queries on several cores
// seldom wait for each other. What it stores it neither reads nor changes.
type store struct {
	size   int
	seed   maphash.Seed // random: who asks cannot choose the shard
	shards []shard

	// epoch counts the flushes. It is raised before the shards are gone through, so
	// that an entry whose response was asked for in an earlier epoch is either
	// refused or found by the flush.
	epoch atomic.Uint64
}

const (
	manyShards = 16
	smallSize  = 1024 // below this one shard keeps the bounds exact
)

func newStore(size, bytes int) *store {
	shards := 1
	if size >= smallSize {
		shards = manyShards
	}
	s := &store{size: size, seed: maphash.MakeSeed(), shards: make([]shard, shards)}
	for i := range s.shards {
		s.shards[i] = shard{maxEntries: size / shards, maxBytes: bytes / shards, byKey: make(map[key]*entry)}
	}
	return s
}

func (s *store) shardOf(k key) *shard {
	if len(s.shards) == 1 {
		return &s.shards[0]
	}
	return &s.shards[maphash.String(s.seed, k.name)%uint64(len(s.shards))]
}

// get returns the entry for k, nil when there is none. It may have expired.
func (s *store) get(k key) *entry { return s.shardOf(k).get(k) }

// put stores e in place of what is there for its key, unless a flush began after epoch.
// Others go when there is no room. An entry beyond a shard's bytes is not stored.
func (s *store) put(e *entry, epoch uint64) {
	h := s.shardOf(e.key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.epoch.Load() != epoch || e.bytes > h.maxBytes {
		return
	}
	h.putLocked(e)
}

// flush removes the entries that match, and returns how many.
func (s *store) flush(match func(*entry) bool) (removed int) {
	s.epoch.Add(1)
	for i := range s.shards {
		removed += s.shards[i].flush(match)
	}
	return removed
}

func (s *store) addTo(stats *Stats) {
	stats.Size = s.size
	for i := range s.shards {
		h := &s.shards[i]
		h.mu.RLock()
		stats.Entries += len(h.byKey)
		stats.Bytes += h.bytes
		stats.Insertions += h.insertions
		stats.Evictions += h.evictions
		h.mu.RUnlock()
	}
}
