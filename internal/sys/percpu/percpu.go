// Package percpu is what is counted while queries are answered: what many goroutines count at once, and how durations and sizes
// spread.
//
// Nothing is allocated. The buckets are CoreDNS's, so that dashboards made for it fit (plugin/metrics and plugin/pkg/proxy of 1.14:
// ExponentialBuckets(0.00025, 2, 16), and the sizes of vars.go; plugin/kubernetes: ExponentialBuckets(0.001, 2, 20)).
package percpu

import (
	"math/bits"
	"time"
)

const (
	shortest        = 250 * time.Microsecond // the bound of the first bucket; each is twice the one before
	durationBuckets = 16

	shortestDelay = time.Millisecond // as shortest; the last bound is 524 s
	delayBuckets  = 20
)

// sizeBounds are octets: the most that a size in the bucket has.
var sizeBounds = [...]int{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16000, 32000, 48000, 64000}

// Durations counts durations. The zero value has none. Who shares one guards it.
type Durations struct {
	counts [durationBuckets + 1]uint64 // the last one is what is longer than all bounds
	sum    time.Duration
}

// Add counts n durations of d. One below zero, by a clock that went back, counts as none.
func (h *Durations) Add(d time.Duration, n uint64) {
	d = max(d, 0)
	h.counts[bucket(d, shortest, durationBuckets)] += n
	h.sum += d * time.Duration(n)
}

// bucket is the place of d among so many buckets, the first of which ends at bound, and each other one at twice the one before.
func bucket(d, bound time.Duration, buckets int) int {
	return min(bits.Len64(uint64(max(d-1, 0)/bound)), buckets)
}

// Merge adds what another one has counted.
func (h *Durations) Merge(other *Durations) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.sum += other.sum
}

// Buckets is what Prometheus shows of it: how many there are, their sum in seconds, and for each bound in seconds how many are no
// longer.
func (h *Durations) Buckets() (count uint64, sum float64, upTo map[float64]uint64) {
	count, upTo = pile(h.counts[:], shortest)
	return count, h.sum.Seconds(), upTo
}

// pile adds up what bucket has told apart: all, and what is no longer than each bound in seconds.
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

// Delays counts durations of what may take minutes. The zero value has none. Who shares one guards it.
type Delays struct {
	counts [delayBuckets + 1]uint64 // the last one is what is longer than all bounds
	sum    time.Duration
}

// Add counts one duration. One below zero counts as none.
func (h *Delays) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(d, shortestDelay, delayBuckets)]++
	h.sum += d
}

// Buckets is what Prometheus shows of it, as Durations.Buckets is.
func (h *Delays) Buckets() (count uint64, sum float64, upTo map[float64]uint64) {
	count, upTo = pile(h.counts[:], shortestDelay)
	return count, h.sum.Seconds(), upTo
}

// Sizes counts sizes in octets. The zero value has none. Who shares one guards it.
type Sizes struct {
	counts [len(sizeBounds) + 1]uint64
	sum    uint64
}

// Add counts one size.
func (h *Sizes) Add(size int) {
	i := (size + 99) / 100 // the first bounds are hundreds
	if size > 400 {
		for i = 5; i < len(sizeBounds) && size > sizeBounds[i]; i++ {
		}
	}
	h.counts[i]++
	h.sum += uint64(size)
}

// Merge adds what another one has counted.
func (h *Sizes) Merge(other *Sizes) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.sum += other.sum
}

// Buckets is what Prometheus shows of it: how many there are, their sum, and for each bound how many are no larger.
func (h *Sizes) Buckets() (count uint64, sum float64, upTo map[float64]uint64) {
	upTo = make(map[float64]uint64, len(sizeBounds))
	for i, bound := range sizeBounds {
		count += h.counts[i]
		upTo[float64(bound)] = count
	}
	return count + h.counts[len(sizeBounds)], float64(h.sum), upTo
}
