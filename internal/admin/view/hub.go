package view

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// ErrTooMany means that the maximum number of watchers is reached.
var ErrTooMany = errors.New("the maximum number of watchers is reached")

const (
	// maxWatchers is the maximum number of watchers, not counting the journal.
	maxWatchers = 4
	// room is the number of events buffered per watcher. At 5,000 queries per second, a watcher may
	// pause for a fifth of a second. An event takes half a kilobyte.
	room = 1024
	// kept is the part of room that is reserved for changes, which are few. Queries do not use it.
	kept = 64
)

// Event is an answered query or a change.
type Event struct {
	Time   time.Time
	Query  *dnsserver.Seen // owns its bytes and is never ByWire; nil for a change
	Change string          // message as in the log
	// Details are the key=value pairs of the log line. They are empty if there are none.
	Details string
}

// Hub passes queries and changes to watchers as they happen. It never blocks the sender. If a
// Watcher has no room, the event is counted, and the Watcher can read that count. The methods are
// safe for concurrent use. The zero Hub is ready for use.
type Hub struct {
	// Watched is called when the watchers need another set of queries. It must not call the Hub.
	// nil disables it.
	Watched func(Attention)

	watchers atomic.Pointer[[]*Watcher] // nil before the first watcher
	mu       sync.Mutex                 // guards changes of watchers
}

// Attention says which queries the watchers need.
type Attention int

// Values of Attention.
const (
	Nothing Attention = iota
	Samples           // samples of the hits, and all other queries
	All
)

// sampledRate is the maximum number of queries per second for a Watcher of samples. One query costs
// it about 20 µs, including the output on the screen.
const sampledRate = 1000

// WatchConfig configures a Watcher.
type WatchConfig struct {
	Filter Filter
	// Sampled limits the Watcher to sampledRate queries per second. Of hits it gets samples that
	// stand for others.
	Sampled bool
	// Rate limits the queries per second and marks the Watcher as the journal. The journal gets no
	// changes, because it already has them, and does not count against maxWatchers. 0 means no
	// limit.
	Rate int64
}

// Watch creates a Watcher. The caller must close it.
func (h *Hub) Watch(c WatchConfig) (*Watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Rate == 0 && h.Watching() >= maxWatchers {
		return nil, ErrTooMany
	}
	w := &Watcher{hub: h, filter: c.Filter, rate: c.Rate, isJournal: c.Rate > 0, isSampled: c.Sampled, Events: make(chan *Event, room)}
	if c.Sampled {
		w.rate = sampledRate
	}
	h.setLocked(append(slices.Clone(h.all()), w))
	return w, nil
}

// Watching returns the number of watchers, not counting the journal.
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
	h.watchers.Store(&next)
	if wanted := attention(next); wanted != had && h.Watched != nil {
		h.Watched(wanted)
	}
}

// IsWatched reports whether there are watchers.
func (h *Hub) IsWatched() bool { return len(h.all()) > 0 }

// Query is a dnsserver.Watch. It allocates no memory for a query that no watcher selects.
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

// ofQuery copies the data that the owner of the query will reuse.
func ofQuery(now time.Time, seen dnsserver.Seen) *Event {
	seen.Query, seen.Response = bytes.Clone(seen.Query), bytes.Clone(seen.Response)
	settleOutcome(&seen)
	return &Event{Time: now, Query: &seen}
}

// change sends an event to all watchers except the journal.
func (h *Hub) change(event Event) {
	for _, w := range h.all() {
		if !w.isJournal {
			w.offer(&event)
		}
	}
}

// Watcher receives events as they happen.
type Watcher struct {
	Events chan *Event // never closed

	hub    *Hub
	filter Filter
	rate   int64 // 0 means no limit
	lost   atomic.Uint64
	window perSecond

	isJournal, isSampled bool
}

// Lost returns the number of queries dropped since the last call.
func (w *Watcher) Lost() uint64 { return w.lost.Swap(0) }

// Close stops the Watcher. It may be called more than once.
func (w *Watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.setLocked(slices.DeleteFunc(slices.Clone(w.hub.all()), func(other *Watcher) bool { return other == w }))
}

// hasRoom reports whether one more query may be sent now.
func (w *Watcher) hasRoom(now time.Time) bool {
	return len(w.Events) < cap(w.Events)-kept && (w.rate == 0 || w.window.take(now.Unix(), w.rate))
}

// perSecond is a rate limiter. It stores the second and, in the low bits, the count in that second.
// It is safe for concurrent use.
type perSecond struct{ window atomic.Int64 }

const countBits = 20

// take reports whether one more event in this second is within rate, and counts it if so. If the
// clock is set, a new second begins.
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

// weight returns the number of queries that an event stands for. nil is a change, which counts as
// one.
func weight(seen *dnsserver.Seen) uint64 {
	if seen == nil {
		return 1
	}
	return uint64(max(1, seen.Stands))
}

// Tee returns a handler that also sends log records of level Info and above to the watchers, even
// if next drops them. The log holds only state changes.
func (h *Hub) Tee(next slog.Handler) slog.Handler {
	text := func(w *bytes.Buffer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: attributesAlone})
	}
	return slog.NewMultiHandler(changes{h, text}, next)
}

// changes sends log records to the watchers.
type changes struct {
	hub  *Hub
	text func(*bytes.Buffer) slog.Handler // includes the attributes of the logger
}

var _ slog.Handler = changes{}

func (c changes) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && c.hub.IsWatched()
}

func (c changes) Handle(ctx context.Context, record slog.Record) error {
	var line bytes.Buffer
	if err := c.text(&line).Handle(ctx, record); err != nil {
		return err
	}
	c.hub.change(Event{Time: record.Time, Change: record.Message, Details: strings.TrimSuffix(line.String(), "\n")})
	return nil
}

func (c changes) WithAttrs(attrs []slog.Attr) slog.Handler {
	return changes{c.hub, func(w *bytes.Buffer) slog.Handler { return c.text(w).WithAttrs(attrs) }}
}

func (c changes) WithGroup(name string) slog.Handler {
	return changes{c.hub, func(w *bytes.Buffer) slog.Handler { return c.text(w).WithGroup(name) }}
}

func attributesAlone(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && (attr.Key == slog.TimeKey || attr.Key == slog.LevelKey || attr.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return attr
}
