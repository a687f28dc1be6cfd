package daemon

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/sys/procfs"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// leastHeadroom is the minimum that is left free of a small limit. Threads, the kernel's socket
// buffers and the program's own pages also count against the limit.
const leastHeadroom = 32 << 20

// limitOfGo returns the memory limit for the Go runtime, given the control group limit (0 if none)
// and GOMEMLIMIT. A fifth is left for memory outside of Go's heap.
func limitOfGo(group, own int64) int64 {
	if group == 0 {
		return own
	}
	return min(own, max(group-max(group/5, leastHeadroom), group/2))
}

// roomForCache returns how much memory the cache may use under limit. live is the memory in use
// after the last garbage collection, and cached is the cache's part of it. The result is three
// quarters of the limit minus the rest of the memory in use. The last quarter keeps the collector
// from running all the time.
func roomForCache(limit, live, cached int64) int64 {
	return max(limit/4*3-max(live-cached, 0), 0)
}

// fitMemory applies the current limits of the control groups.
func (f *follower) fitMemory() {
	if f.config.SetMemoryLimit == nil {
		return
	}
	group, err := procfs.MemoryLimit("")
	if err != nil {
		if f.memoryWhy != err.Error() {
			f.memoryWhy = err.Error()
			f.log.Warn("cannot determine the memory limit", "error", err)
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

// heapFloor is the heap size below which no garbage is collected. A collection takes time from
// queries in flight: with a heap of 6 MB, responses of 64 KiB caused 40 collections a second, half
// of the CPU time.
const heapFloor = 16 << 20

// leastGCPercent limits garbage to a third of the heap, where Go's default allows half. Nearly all
// of a heap above heapFloor is the cache and the cluster's names, which stay, and a cache hit makes
// no garbage at all.
const leastGCPercent = 50

// gcPercent returns the GOGC value for this many live bytes, in steps of 50, because each change
// stops the program for a moment. Values over 400 are useless: Go never collects below 4 MiB *
// GOGC/100 (mgcpacer.go, heapMinimum), which is then heapFloor.
func gcPercent(live int64) int {
	const step, most = 50, heapFloor / (4 << 20) * 100
	percent := (heapFloor - live) * 100 / max(live, 1)
	return int(min(max(percent/step*step, leastGCPercent), most))
}

// collector tunes garbage collection, and shrinks the cache before memory runs short. The cache may
// grow again later. Only one goroutine uses it.
type collector struct {
	*Daemon
	percent int  // GOGC; 0 before the first call of tune
	isShort bool // the log reported that the cache has less room than it wants
}

func (d *Daemon) watchMemory(ctx context.Context) error {
	c := collector{Daemon: d}
	collected := make(chan struct{}, 1)
	afterCollecting(ctx, collected)
	c.tune(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-collected:
			live := view.LiveHeap()
			c.tune(live)
			if limit := d.memory.limit.Load(); limit > 0 {
				c.fitCache(d.resolver.Cache(), limit, live)
			}
		}
	}
}

// tune sets GOGC for this many live bytes.
func (c *collector) tune(live int64) {
	if percent := gcPercent(live); percent != c.percent && c.config.SetGCPercent != nil {
		c.percent = percent
		c.config.SetGCPercent(percent)
	}
}

// afterCollecting signals each garbage collection until ctx ends. It needs no timer.
func afterCollecting(ctx context.Context, collected chan<- struct{}) {
	garbage := &struct{ room [64]byte }{} // not a tiny object: those are collected together
	runtime.SetFinalizer(garbage, func(any) {
		if ctx.Err() != nil {
			return
		}
		supervise.Wake(collected)
		afterCollecting(ctx, collected)
	})
}

// fitCache bounds the cache. It logs once when the bound makes the cache shrink.
func (c *collector) fitCache(answers *cache.Cache, limit, live int64) {
	stats := answers.Stats()
	room := roomForCache(limit, live, int64(stats.Bytes))
	removed := answers.Bound(int(min(room, math.MaxInt)))
	switch {
	case removed > 0 && !c.isShort:
		c.isShort = true
		c.log.Warn("memory is short; the cache shrinks", "octets", room, "forgotten", removed, "limit", limit, "live", live)
	case c.isShort && room >= int64(stats.MaxBytes):
		c.isShort = false
		c.log.Info("the cache has its full size again", "octets", stats.MaxBytes)
	}
}

// openFiles returns how many files this process may open. Go itself raises the soft limit (1024
// under systemd) to one below the hard limit (syscall/rlimit.go, since 1.19). The hard limit is
// 524288 with systemd 240 and later, and 4096 before.
func openFiles() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return int(min(limit.Cur, math.MaxInt32)), nil
}
