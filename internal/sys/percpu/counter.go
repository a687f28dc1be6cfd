package percpu

import (
	"sync/atomic"
	"unsafe"
)

// A Counter counts without that processors wait for each other: it has a place for each of a few goroutines that are at it
// all the time.
type Counter [16]struct {
	atomic.Uint64
	_ [56]byte // what shares a line of the processor's memory is written by one at a time
}

// Add counts one. Goroutines are told apart by where their stacks are: those of two workers are never the same, and seldom
// have the same place. Nothing but speed depends on it.
func (c *Counter) Add() {
	var here byte
	hash := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15
	c[hash>>60].Add(1)
}

// Load returns how many were counted.
func (c *Counter) Load() (sum uint64) {
	for i := range c {
		sum += c[i].Load()
	}
	return sum
}
