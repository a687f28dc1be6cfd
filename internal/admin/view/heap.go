package view

import (
	"math"
	"runtime"
	"runtime/metrics"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// LiveHeap returns the bytes in use after the last garbage collection.
func LiveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(min(sample[0].Value.Uint64(), math.MaxInt64))
}

func (v *View) processStatus() control.Process {
	return control.Process{Goroutines: runtime.NumGoroutine(), Heap: LiveHeap(), MemoryLimit: v.config.MemoryLimit()}
}
