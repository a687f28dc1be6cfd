package cache

import "time"

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
