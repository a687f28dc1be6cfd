package cache

// flushStep is how many chains are looked at under one lock. With an entry in each that takes some microseconds.
const flushStep = 64

// Flush forgets the entries that match reports true for, all when it is nil, and returns how many. A response that was asked for before
// Flush and comes after it is not remembered, whatever match says of it: it may be one of those. So what Flush has forgotten comes
// back only by a query that comes after it begins.
//
// It holds a lock for some microseconds at a time, and none while match is called, which may call the Cache.
func (c *Cache) Flush(match func(Remembered) bool) int {
	if c.store == nil {
		return 0
	}
	now := c.elapsed()
	return c.store.flush(func(e *entry) bool { return match == nil || match(e.remembered(now)) })
}

// flush removes the entries that match, and returns how many. put may be at its end for a response of the epoch before: it is in its chain
// when we have that chain's lock. Where there are more chains meanwhile, entries are in those that were looked at, or behind.
func (s *store) flush(match func(*entry) bool) (removed int) {
	s.epoch.Add(1)
	var found []*entry
	for i := range s.shards {
		h := &s.shards[i]
		for from := i; from < len(*s.chains.Load()); from += flushStep * len(s.shards) {
			found = s.gather(found[:0], h, from)
			gone := found[:0]
			for _, e := range found {
				if match(e) {
					gone = append(gone, e)
				}
			}
			removed += s.removeAll(h, gone)
		}
	}
	return removed
}

// gather appends the entries of a step's chains, which are those of a shard from one on.
func (s *store) gather(found []*entry, h *shard, from int) []*entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	chains := *s.chains.Load()
	for i := from; i < min(from+flushStep*len(s.shards), len(chains)); i += len(s.shards) {
		found = appendChain(found, chains[i].Load())
	}
	return found
}

// removeAll removes entries of one shard, but for those that have gone meanwhile, and returns how many.
func (s *store) removeAll(h *shard, gone []*entry) (removed int) {
	if len(gone) == 0 {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range gone {
		if s.hasLocked(e) {
			s.removeLocked(h, e)
			removed++
		}
	}
	return removed
}

func (s *store) hasLocked(e *entry) bool {
	at := s.chainOf(e.hash).Load()
	for at != nil && at != e {
		at = at.next.Load()
	}
	return at != nil
}
