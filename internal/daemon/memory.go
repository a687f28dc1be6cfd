package daemon

import (
	"context"
	"math"
	"runtime"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// leastHeadroom is what is left of a small limit: threads, the kernel's buffers of our sockets, and the pages of the program itself
// count there too.
const leastHeadroom = 32 << 20

// limitOfGo is what Go's heap may grow to where control groups limit the process to group (0: they do not), and GOMEMLIMIT says
// own. A fifth is left for all that is not Go's.
func limitOfGo(group, own int64) int64 {
	if group == 0 {
		return own
	}
	return min(own, max(group-max(group/5, leastHeadroom), group/2))
}

// roomForCache is what the cache may take where Go may take limit, live is what was in use when memory was last collected, and
// cached is what the cache had of that: all that others leave of three quarters. The last one keeps the collector from
// running all the time.
func roomForCache(limit, live, cached int64) int64 {
	return max(limit/4*3-max(live-cached, 0), 0)
}

// fitMemory takes over what the control groups say now.
func (f *follower) fitMemory() {
	if f.config.SetMemoryLimit == nil {
		return
	}
	group, err := procfs.MemoryLimit("")
	if err != nil {
		if f.memoryWhy != err.Error() {
			f.memoryWhy = err.Error()
			f.log.Warn("how much memory we may take is not known", "error", err)
		}
		return
	}
	f.memoryWhy = ""
	limit := limitOfGo(group, f.memory.own)
	f.config.SetMemoryLimit(limit)
	if limit == math.MaxInt64 {
		limit = 0
	}
	if before := f.memory.limit.Swap(limit); before != limit {
		f.log.Info("memory limit", "octets", limit, "of", group)
	}
}

// heapFloor is what the heap may grow to before memory is collected, however little of it is in use. A collection takes time from
// the queries under way: with a heap of 6 MB, responses of 64 KiB caused 40 collections a second, half of the processor's time.
const heapFloor = 16 << 20

// leastGCPercent has a third of the heap be garbage at most, where Go would have a half: nearly all of a heap above heapFloor is
// the cache and the cluster's names, which stay, and a hit leaves no garbage at all.
const leastGCPercent = 50

// gcPercent is Go's GOGC while live octets are in use, in steps of 50: each change stops the program for a moment. More than 400 has
// no use: Go collects nothing below 4 MiB * GOGC/100 (mgcpacer.go, heapMinimum), which is heapFloor then.
func gcPercent(live int64) int {
	const step, most = 50, heapFloor / (4 << 20) * 100
	percent := (heapFloor - live) * 100 / max(live, 1)
	return int(min(max(percent/step*step, leastGCPercent), most))
}

// watchMemory says when memory is collected, and has the cache shrink before memory is short, and grow again.
func (d *Daemon) watchMemory(ctx context.Context) error {
	collected := make(chan struct{}, 1)
	afterCollecting(ctx, collected)
	percent := d.collectAt(0, gcPercent(0))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-collected:
			live := view.LiveHeap()
			percent = d.collectAt(percent, gcPercent(live))
			if limit := d.memory.limit.Load(); limit > 0 {
				d.fitCache(d.resolver.Cache(), limit, live)
			}
		}
	}
}

// collectAt sets Go's GOGC to percent if that is not what it is, and returns percent.
func (d *Daemon) collectAt(current, percent int) int {
	if current != percent && d.config.SetGCPercent != nil {
		d.config.SetGCPercent(percent)
	}
	return percent
}

// afterCollecting tells each time that memory has been collected, until ctx ends: nothing is woken for it.
func afterCollecting(ctx context.Context, collected chan<- struct{}) {
	garbage := &struct{ room [64]byte }{} // not a tiny one: those are collected together
	runtime.SetFinalizer(garbage, func(any) {
		if ctx.Err() != nil {
			return
		}
		select {
		case collected <- struct{}{}:
		default:
		}
		afterCollecting(ctx, collected)
	})
}

// fitCache bounds the cache, and says so once where that is less than it has.
func (d *Daemon) fitCache(c *cache.Cache, limit, live int64) {
	stats := c.Stats()
	room := roomForCache(limit, live, int64(stats.Bytes))
	removed := c.Bound(int(min(room, math.MaxInt)))
	switch {
	case removed > 0 && !d.memory.short:
		d.memory.short = true
		d.log.Warn("memory is short: the cache shrinks", "octets", room, "forgotten", removed, "limit", limit, "live", live)
	case d.memory.short && room >= int64(stats.MaxBytes):
		d.memory.short = false
		d.log.Info("the cache has its room again", "octets", stats.MaxBytes)
	}
}
