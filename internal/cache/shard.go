package cache

import "sync"

// A shard is a part of the store, with SIEVE as the rule of what goes first (Zhang
// and others, NSDI 2024): a list in order of arrival, and a hand that moves from
// old to new, clears the mark of entries that were asked for since it passed, and
// removes the first without one. Names that are asked for once, however many, do
// not push out those asked for again; a hit only sets a mark.
type shard struct {
	maxEntries, maxBytes int

	mu         sync.RWMutex // guards what follows
	byKey      map[key]*entry
	newest     *entry
	oldest     *entry
	hand       *entry // the entry to look at next; nil means the oldest
	bytes      int
	insertions uint64
	evictions  uint64
}

func (h *shard) get(k key) *entry {
	h.mu.RLock()
	defer h.mu.RUnlock()
	e := h.byKey[k]
	if e != nil && !e.visited.Load() { // a store would take the line from other cores
		e.visited.Store(true)
	}
	return e
}

func (h *shard) putLocked(e *entry) {
	if old := h.byKey[e.key]; old != nil {
		// Asked for again after it expired: a name in use.
		e.visited.Store(old.visited.Load())
		h.removeLocked(old)
	}
	for len(h.byKey) > 0 && (len(h.byKey) >= h.maxEntries || h.bytes+e.bytes > h.maxBytes) {
		h.evictLocked(e)
	}
	h.byKey[e.key] = e
	h.bytes += e.bytes
	h.insertions++
	e.prev = h.newest
	if h.newest != nil {
		h.newest.next = e
	} else {
		h.oldest = e
	}
	h.newest = e
}

// evictLocked removes one entry to make room for the one that is coming. It ends
// within two turns of the hand: the first leaves no marks, and get, which sets
// them, is locked out.
func (h *shard) evictLocked(coming *entry) {
	e := h.hand
	for {
		if e == nil {
			e = h.oldest
		}
		if _, live := e.age(coming.stored); !live {
			break
		}
		if !e.visited.Load() {
			h.evictions++
			break
		}
		e.visited.Store(false)
		e = e.next
	}
	h.hand = e.next
	h.removeLocked(e)
}

func (h *shard) removeLocked(e *entry) {
	delete(h.byKey, e.key)
	h.bytes -= e.bytes
	if h.hand == e {
		h.hand = e.next
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		h.oldest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		h.newest = e.prev
	}
	e.prev, e.next = nil, nil
}

func (h *shard) flush(match func(*entry) bool) (removed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := h.oldest; e != nil; {
		next := e.next
		if match(e) {
			h.removeLocked(e)
			removed++
		}
		e = next
	}
	return removed
}
