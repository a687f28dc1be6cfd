// Package stats counts in bounded memory: counters that many goroutines use at once, histograms of
// durations and sizes, and the heaviest keys of a stream.
//
// Counters and histograms are for the query path and do not allocate. The buckets are CoreDNS's, so
// that its dashboards work (plugin/metrics and plugin/pkg/proxy of 1.14:
// ExponentialBuckets(0.00025, 2, 16), and the sizes of vars.go; plugin/kubernetes:
// ExponentialBuckets(0.001, 2, 20)).
package stats

import (
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	shortest        = 250 * time.Microsecond // bound of the first bucket; each further bound doubles
	durationBuckets = 16

	shortestDelay = time.Millisecond // likewise for Delays; the last bound is 524 s
	delayBuckets  = 20
)

// sizeBounds are the upper bounds of the size buckets in bytes.
var sizeBounds = [...]int{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16000, 32000, 48000, 64000}

// Durations is a histogram of durations. The zero value is empty. It needs a lock if shared.
type Durations struct {
	counts [durationBuckets + 1]uint64 // the last one is for durations above all bounds
	sum    time.Duration
}

// Add adds n durations of d. Negative durations, from a clock that went backwards, count as zero.
func (h *Durations) Add(d time.Duration, n uint64) {
	d = max(d, 0)
	h.counts[bucket(d, shortest, durationBuckets)] += n
	h.sum += d * time.Duration(n)
}

// bucket returns the index of d among the given number of buckets. The first ends at bound, and
// each further one at twice the previous bound.
func bucket(d, bound time.Duration, buckets int) int {
	return min(bits.Len64(uint64(max(d-1, 0)/bound)), buckets)
}

// Merge adds the counts of another histogram.
func (h *Durations) Merge(other *Durations) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.sum += other.sum
}

// Buckets returns the histogram in Prometheus form: the number of durations, their sum in seconds,
// and for each bound in seconds the number of durations up to it.
func (h *Durations) Buckets() (count uint64, sum float64, upTo map[float64]uint64) {
	count, upTo = pile(h.counts[:], shortest)
	return count, h.sum.Seconds(), upTo
}

// pile returns the total count, and the cumulative count for each bound in seconds.
func pile(counts []uint64, bound time.Duration) (all uint64, upTo map[float64]uint64) {
	bounded := len(counts) - 1
	upTo = make(map[float64]uint64, bounded)
	for _, n := range counts[:bounded] {
		all += n
		upTo[bound.Seconds()] = all
		bound *= 2
	}
	return all + counts[bounded], upTo
}

// Delays is a histogram of durations that may take minutes. The zero value is empty. It needs a
// lock if shared.
type Delays struct {
	counts [delayBuckets + 1]uint64 // the last one is for durations above all bounds
	sum    time.Duration
}

// Add adds one duration. Negative durations count as zero.
func (h *Delays) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(d, shortestDelay, delayBuckets)]++
	h.sum += d
}

// Buckets returns the histogram in Prometheus form, like Durations.Buckets.
func (h *Delays) Buckets() (count uint64, sum float64, upTo map[float64]uint64) {
	count, upTo = pile(h.counts[:], shortestDelay)
	return count, h.sum.Seconds(), upTo
}

// Sizes is a histogram of sizes in bytes. The zero value is empty. It needs a lock if shared.
type Sizes struct {
	counts [len(sizeBounds) + 1]uint64
	sum    uint64
}

// Add adds one size.
func (h *Sizes) Add(size int) {
	i := (size + 99) / 100 // the first bounds are multiples of 100
	if size > 400 {
		for i = 5; i < len(sizeBounds) && size > sizeBounds[i]; i++ {
		}
	}
	h.counts[i]++
	h.sum += uint64(size)
}

// Merge adds the counts of another histogram.
func (h *Sizes) Merge(other *Sizes) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.sum += other.sum
}

// Buckets returns the histogram in Prometheus form: the number of sizes, their sum, and for each
// bound the number of sizes up to it.
func (h *Sizes) Buckets() (count uint64, sum float64, upTo map[float64]uint64) {
	upTo = make(map[float64]uint64, len(sizeBounds))
	for i, bound := range sizeBounds {
		count += h.counts[i]
		upTo[float64(bound)] = count
	}
	return count + h.counts[len(sizeBounds)], float64(h.sum), upTo
}

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
