package cache

// flushStep is the number of chains visited under one lock. With an entry in each, that takes a few
// microseconds.
const flushStep = 64

// Flush removes the entries for which match returns true, or all if match is nil, and returns their
// number. A response to a query from before Flush that arrives after it is not stored, whatever
// match would return, because it may be outdated, too. So only queries that start after Flush can
// bring an entry back.
//
// Flush holds a lock for a few microseconds at a time, and none while it calls match, which may
// call the Cache.
func (c *Cache) Flush(match func(Remembered) bool) int {
	if c.store == nil {
		return 0
	}
	now := c.elapsed()
	return c.store.flush(func(e *entry) bool { return match == nil || match(e.remembered(now)) })
}

// flush removes the entries that match and returns their number. A concurrent put may just be
// storing a response of the previous epoch: it is in its chain when we get the lock of that chain.
// If the number of chains grows at the same time, entries move only to chains that were visited or
// are still to come.
func (s *store) flush(match func(*entry) bool) (removed int) {
	s.epoch.Add(1)
	var found []*entry
	step := len(s.shards)
	for i := range s.shards {
		for from := i; from < len(*s.chains.Load()); from += flushStep * step {
			found = s.gather(found[:0], from, step, from+flushStep*step)
			gone := found[:0]
			for _, e := range found {
				if match(e) {
					gone = append(gone, e)
				}
			}
			removed += s.removeAll(&s.shards[i], gone)
		}
	}
	return removed
}

// removeAll removes entries of one shard, skipping those that are already gone, and returns the
// number removed.
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
