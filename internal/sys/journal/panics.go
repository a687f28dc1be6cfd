package journal

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// Panics counts panics that ended one operation and not the process. Its methods may be called
// concurrently. The zero Panics is ready for use.
type Panics struct{ n atomic.Uint64 }

// Caught must be called by the deferred function that recovered, with the value from recover. It
// logs the 1st, 2nd, 4th, 8th ... panic with its stack, because every query of a client may cause
// one.
func (p *Panics) Caught(log *slog.Logger, message string, c Condition, value any, attrs ...any) {
	if n := p.n.Add(1); n&(n-1) == 0 {
		defer func() { _ = recover() }() // a panic in the logger must not end the process
		log.With(attrs...).Error(message, "panic", fmt.Sprint(value), "panics", n, "stack", string(debug.Stack()), c.Attr())
	}
}

// Count returns the number of panics.
func (p *Panics) Count() uint64 { return p.n.Load() }
