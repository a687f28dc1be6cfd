package cache

import "time"

// Bound gives the responses no more than so many octets of memory, where Config.MaxBytes gives more, from now on. Those that
// there is no room for go, in the order in which they go for others. It returns how many.
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

// shrink removes one entry of a shard that has too much; false: it has not. Queries have their turn between two.
func (s *store) shrink(h *shard, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entries() == 0 || h.bytes <= h.maxBytes {
		return false
	}
	s.removeLocked(h, h.victimLocked(now, s.stale))
	return true
}
