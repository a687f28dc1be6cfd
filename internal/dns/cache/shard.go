package cache

import (
	"sync"
	"time"
)

// A shard is a part of the store. It evicts by SIEVE (Zhang and others, NSDI 2024): entries are in
// a list in order of arrival. A hand moves from old to new, clears the mark of entries that were
// used since it last passed, and removes the first one without a mark. So any number of names used
// once do not evict names that are used again, and a hit only sets a mark.
//
// Failures have their own list: they last for seconds, and they arrive when the stored responses
// may be the only ones available for a while.
type shard struct {
	maxEntries, maxBytes int

	mu         sync.Mutex // guards the fields below, and changes of the shard's chains
	responses  list
	failures   list
	hand       *entry // the next response to look at; nil means the oldest
	bytes      int
	insertions uint64
	evictions  uint64

	denials         int // of entries
	denialEvictions uint64
}

// failureShare is the fraction (one eighth) of a full shard above which failures are evicted before
// any response.
const failureShare = 8

func (h *shard) entries() int { return h.responses.n + h.failures.n }

// isFullLocked reports whether an entry must be evicted before e can be added.
func (h *shard) isFullLocked(e *entry) bool {
	return h.entries() > 0 && (h.entries() >= h.maxEntries || h.bytes+e.bytes() > h.maxBytes)
}

func (h *shard) listOf(e *entry) *list {
	if e.isFailure() {
		return &h.failures
	}
	return &h.responses
}

func (h *shard) addLocked(e *entry) {
	h.bytes += e.bytes()
	h.insertions++
	if e.isDenial() {
		h.denials++
	}
	h.listOf(e).add(e)
}

// victimLocked returns the entry to evict: a failure that has expired or exceeds the share of
// failures, or else an unused response, or one too old even to be stale. The shard must not be
// empty.
func (h *shard) victimLocked(now, stale time.Duration) *entry {
	failed := h.failures.oldest
	if failed != nil && (h.responses.n == 0 || h.failures.n > h.maxEntries/failureShare || !failed.isLive(now)) {
		return h.evictedLocked(failed, now)
	}
	return h.turnLocked(now, stale)
}

// turnLocked moves the hand to the next response to evict. The shard must have a response. Marks
// may be set again during the walk, so it goes round at most twice.
func (h *shard) turnLocked(now, stale time.Duration) *entry {
	e := h.hand
	for range 2 * h.responses.n {
		if e == nil {
			e = h.responses.oldest
		}
		if !e.visited.Load() || !e.isUsable(now, stale) {
			break
		}
		e.visited.Store(false)
		e = e.newer
	}
	if e == nil {
		e = h.responses.oldest
	}
	h.hand = e.newer
	return h.evictedLocked(e, now)
}

// evictedLocked counts an evicted entry that was still live.
func (h *shard) evictedLocked(e *entry, now time.Duration) *entry {
	if e.isLive(now) {
		h.evictions++
		if e.isDenial() {
			h.denialEvictions++
		}
	}
	return e
}

func (h *shard) removeLocked(e *entry) {
	h.bytes -= e.bytes()
	if e.isDenial() {
		h.denials--
	}
	if h.hand == e {
		h.hand = e.newer
	}
	h.listOf(e).remove(e)
}

// A list holds entries in order of arrival. The zero list is empty.
type list struct {
	newest, oldest *entry
	n              int
}

func (l *list) add(e *entry) {
	l.n++
	e.older = l.newest
	if l.newest != nil {
		l.newest.newer = e
	} else {
		l.oldest = e
	}
	l.newest = e
}

func (l *list) remove(e *entry) {
	l.n--
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		l.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		l.newest = e.older
	}
	e.older, e.newer = nil, nil
}
