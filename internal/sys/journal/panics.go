package journal

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// Panics counts those that one thing was ended by, and not the process. Its methods may be called concurrently. The zero
// Panics is ready for use.
type Panics struct{ n atomic.Uint64 }

// Caught is called with what recover returned, by the deferred function, whose stack shows where it was. It logs the 1st, 2nd,
// 4th, 8th …: each query of a client may cause one.
func (p *Panics) Caught(log *slog.Logger, message string, c Condition, value any, attrs ...any) {
	if n := p.n.Add(1); n&(n-1) == 0 {
		defer func() { _ = recover() }() // a log that panics too is no reason to end
		log.With(attrs...).Error(message, "panic", fmt.Sprint(value), "panics", n, "stack", string(debug.Stack()), c.Attr())
	}
}

// Count is how many there were.
func (p *Panics) Count() uint64 { return p.n.Load() }
