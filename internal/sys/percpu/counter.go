package percpu

import (
	"sync/atomic"
	"unsafe"
)

// A Counter counts without contention between CPUs: it has several cells, so that the few
// goroutines that count all the time rarely share one.
type Counter [16]struct {
	atomic.Uint64
	_ [56]byte // keeps each cell on its own cache line
}

// Add adds one. It selects the cell by the address of the goroutine's stack, which is never the
// same for two workers and rarely maps to the same cell. A collision only costs speed.
func (c *Counter) Add() {
	var here byte
	hash := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15
	c[hash>>60].Add(1)
}

// Load returns the count.
func (c *Counter) Load() (sum uint64) {
	for i := range c {
		sum += c[i].Load()
	}
	return sum
}
