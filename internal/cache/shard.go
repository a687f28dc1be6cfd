package cache

import (
	"sync"
	"time"
)

// A shard is a part of the store, with SIEVE as the rule of what goes first (Zhang
// and others, NSDI 2024): a list in order of arrival, and a hand that moves from
// old to new, clears the mark of entries that were asked for since it passed, and
// removes the first without one. Names that are asked for once, however many, do
// not push out those asked for again; a hit only sets a mark.
type shard struct {
	maxEntries, maxBytes int

	mu         sync.Mutex // guards what follows, and the chains of the shard against others who change them
	newest     *entry
	oldest     *entry
	hand       *entry // the entry to look at next; nil means the oldest
	entries    int
	bytes      int
	insertions uint64
	evictions  uint64

	denials         int // of entries
	denialEvictions uint64
}

// isFullLocked reports whether another must go before e can come.
func (h *shard) isFullLocked(e *entry) bool {
	return h.entries > 0 && (h.entries >= h.maxEntries || h.bytes+e.bytes() > h.maxBytes)
}

func (h *shard) addLocked(e *entry) {
	h.entries++
	h.bytes += e.bytes()
	h.insertions++
	if e.isDenial() {
		h.denials++
	}
	e.older = h.newest
	if h.newest != nil {
		h.newest.newer = e
	} else {
		h.oldest = e
	}
	h.newest = e
}

// victimLocked returns the entry that goes next: what nobody asks for, or may not even be given out as stale. The shard must have one. Marks that are set again while the hand turns have
// it turn no more than twice.
func (h *shard) victimLocked(now, stale time.Duration) *entry {
	e := h.hand
	for range 2 * h.entries {
		if e == nil {
			e = h.oldest
		}
		if !e.visited.Load() {
			if e.isLive(now) {
				h.evictions++
				if e.isDenial() {
					h.denialEvictions++
				}
			}
			break
		}
		if !e.isUsable(now, stale) {
			break
		}
		e.visited.Store(false)
		e = e.newer
	}
	if e == nil {
		e = h.oldest
	}
	h.hand = e.newer
	return e
}

func (h *shard) removeLocked(e *entry) {
	h.entries--
	h.bytes -= e.bytes()
	if e.isDenial() {
		h.denials--
	}
	if h.hand == e {
		h.hand = e.newer
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		h.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		h.newest = e.older
	}
	e.older, e.newer = nil, nil
}
