package view

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// ErrTooMany is for who comes when as many watch as may.
var ErrTooMany = errors.New("as many watch already as may")

const (
	// maxWatchers may watch at a time, beside the journal.
	maxWatchers = 4
	// room is how many events wait for a watcher: at 5,000 queries a second he may be away for a fifth of one. An event takes half a
	// kilobyte.
	room = 1024
	// kept of these are for changes, which are few, and which queries do not take the place of.
	kept = 64
)

// Event is a query that was answered, or a change.
type Event struct {
	Time   time.Time
	Query  *dnsserver.Seen // its octets are nobody else's, and it is never ByWire; nil: it is a change
	Change string          // as the log has it
	// Details are the log's key=value pairs; "": it has none.
	Details string
}

// Hub passes on what is asked of this nameserver, and what changes in it, as it happens, to those who watch. Nobody who tells it
// anything waits: what a Watcher has no room for is counted, and it is told how much that was. Its methods may be called concurrently.
// The zero Hub is ready for use.
type Hub struct {
	// Watched is called when what those who watch are to be told has changed. It must not call the Hub. Nil: nobody wants to know.
	Watched func(Attention)

	watchers atomic.Pointer[[]*Watcher] // nil: nobody watches
	mu       sync.Mutex                 // guards changes of it
}

// Attention says of which queries those who watch are told.
type Attention int

// What those who watch are told of.
const (
	Nothing Attention = iota
	Samples           // of the hits; all other queries
	All
)

// sampledRate bounds what a Watcher of samples is told of in a second. One query costs it, from here to the screen, some 20 µs.
const sampledRate = 1000

// WatchConfig says what a Watcher is told.
type WatchConfig struct {
	Filter Filter
	// Sampled has it be told of sampledRate queries in a second at most, and of hits by samples that stand for others.
	Sampled bool
	// Rate bounds the queries in a second, and makes the Watcher the journal: it is told of no changes, which it has already, and is
	// not counted among those who may watch. 0: nothing bounds them.
	Rate int64
}

// Watch begins a Watcher, which must be closed.
func (h *Hub) Watch(c WatchConfig) (*Watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	have := h.all()
	if c.Rate == 0 && h.Watching() >= maxWatchers {
		return nil, ErrTooMany
	}
	w := &Watcher{hub: h, filter: c.Filter, rate: c.Rate, isJournal: c.Rate > 0, isSampled: c.Sampled, Events: make(chan *Event, room)}
	if c.Sampled {
		w.rate = sampledRate
	}
	h.setLocked(append(slices.Clone(have), w))
	return w, nil
}

// Watching is how many watch, beside the journal.
func (h *Hub) Watching() (n int) {
	for _, w := range h.all() {
		if !w.isJournal {
			n++
		}
	}
	return n
}

func attention(watchers []*Watcher) Attention {
	wanted := Nothing
	for _, w := range watchers {
		if !w.isSampled {
			return All
		}
		wanted = Samples
	}
	return wanted
}

func (h *Hub) all() []*Watcher {
	if all := h.watchers.Load(); all != nil {
		return *all
	}
	return nil
}

func (h *Hub) setLocked(next []*Watcher) {
	had := attention(h.all())
	if len(next) == 0 {
		h.watchers.Store(nil)
	} else {
		h.watchers.Store(&next)
	}
	if wanted := attention(next); wanted != had && h.Watched != nil {
		h.Watched(wanted)
	}
}

// IsWatched reports whether anybody is told of queries.
func (h *Hub) IsWatched() bool { return h.watchers.Load() != nil }

// Query is a dnsserver.Watch. It allocates nothing for a query that nobody wants to see.
func (h *Hub) Query(seen dnsserver.Seen) {
	var event *Event
	for _, w := range h.all() {
		if !w.filter.matches(&seen) {
			continue
		}
		now := time.Now()
		if !w.hasRoom(now) {
			w.lost.Add(weight(&seen))
			continue
		}
		if event == nil {
			event = ofQuery(now, seen)
		}
		w.offer(event)
	}
}

// ofQuery keeps what the query's owner will use again.
func ofQuery(now time.Time, seen dnsserver.Seen) *Event {
	seen.Query, seen.Response = bytes.Clone(seen.Query), bytes.Clone(seen.Response)
	settleOutcome(&seen)
	return &Event{Time: now, Query: &seen}
}

// change tells all but the journal.
func (h *Hub) change(event Event) {
	for _, w := range h.all() {
		if !w.isJournal {
			w.offer(&event)
		}
	}
}

// Watcher is told of events as they happen.
type Watcher struct {
	Events chan *Event // never closed

	hub    *Hub
	filter Filter
	rate   int64 // 0: nothing bounds it
	lost   atomic.Uint64
	window perSecond

	isJournal, isSampled bool
}

// Lost is how many queries there was no room for since it was asked last.
func (w *Watcher) Lost() uint64 { return w.lost.Swap(0) }

// Close ends it. It may be called again.
func (w *Watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	have := w.hub.all()
	if next := slices.DeleteFunc(slices.Clone(have), func(other *Watcher) bool { return other == w }); len(next) < len(have) {
		w.hub.setLocked(next)
	}
}

// hasRoom reports whether one more query may be offered now.
func (w *Watcher) hasRoom(now time.Time) bool {
	return len(w.Events) < cap(w.Events)-kept && (w.rate == 0 || w.window.take(now.Unix(), w.rate))
}

// perSecond counts what is done in a second: the second, and in the low bits how often it was done. It is safe for concurrent use.
type perSecond struct{ window atomic.Int64 }

const countBits = 20

// take reports whether it may be done once more in a second, at that rate, and counts it then. A clock that is set begins another second.
func (p *perSecond) take(second, rate int64) bool {
	for {
		had := p.window.Load()
		next := second<<countBits | 1
		if had>>countBits == second {
			if had&(1<<countBits-1) >= rate {
				return false
			}
			next = had + 1
		}
		if p.window.CompareAndSwap(had, next) {
			return true
		}
	}
}

func (w *Watcher) offer(event *Event) {
	select {
	case w.Events <- event:
	default:
		w.lost.Add(weight(event.Query))
	}
}

// weight is the number of queries that an event is for; nil is a change, which counts as one.
func weight(seen *dnsserver.Seen) uint64 {
	if seen == nil {
		return 1
	}
	return uint64(max(1, seen.Stands))
}
