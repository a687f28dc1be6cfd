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
//
// Failures are apart: they last for seconds, and come when the responses that are
// there may be all that can be given out for a while.
type shard struct {
	maxEntries, maxBytes int

	mu         sync.Mutex // guards what follows, and the chains of the shard against others who change them
	responses  list
	failures   list
	hand       *entry // the response to look at next; nil means the oldest
	bytes      int
	insertions uint64
	evictions  uint64

	denials         int // of entries
	denialEvictions uint64
}

// failureShare is the part of a full shard beyond which failures go before any response.
const failureShare = 8

func (h *shard) entries() int { return h.responses.n + h.failures.n }

// isFullLocked reports whether another must go before e can come.
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

// victimLocked returns the entry that goes next: a failure that is over, or that there are too many of, or the response that nobody asks
// for, or that may not even be given out as stale. The shard must have one.
func (h *shard) victimLocked(now, stale time.Duration) *entry {
	failed := h.failures.oldest
	if failed != nil && (h.responses.n == 0 || h.failures.n > h.maxEntries/failureShare || !failed.isLive(now)) {
		return h.evictedLocked(failed, now)
	}
	return h.turnLocked(now, stale)
}

// turnLocked turns the hand to the response that goes next. The shard must have one. Marks that are set again meanwhile have it turn no
// more than twice.
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

// evictedLocked counts an entry that goes for another, if it might have been of use.
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
