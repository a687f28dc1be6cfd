package stats

import (
	"math"
	"testing"
	"time"
)

// TestDurations: each duration is in the buckets that Prometheus would use.
func TestDurations(t *testing.T) {
	var ours Durations
	theirs := newTheirs(exponential(0.00025, 2, 16))
	for _, d := range []time.Duration{-time.Second, 0, 1, time.Microsecond, time.Hour, 300 * time.Hour} {
		ours.Add(d, 1)
		theirs.observe(max(d, 0).Seconds())
	}
	for bound := shortest; bound <= 16*time.Second; bound *= 2 {
		for _, d := range []time.Duration{bound - 1, bound, bound + 1} {
			ours.Add(d, 3)
			for range 3 {
				theirs.observe(d.Seconds())
			}
		}
	}
	var merged Durations
	merged.Merge(&ours)
	theirs.compare(t, merged.Buckets)
}

// TestDelays is like TestDurations, with CoreDNS's buckets for the cluster's delays.
func TestDelays(t *testing.T) {
	var ours Delays
	theirs := newTheirs(exponential(0.001, 2, 20))
	for _, d := range []time.Duration{-time.Second, 0, 1, time.Microsecond, time.Hour, 300 * time.Hour} {
		ours.Add(d)
		theirs.observe(max(d, 0).Seconds())
	}
	for bound := shortestDelay; bound <= 20*time.Minute; bound *= 2 {
		for _, d := range []time.Duration{bound - 1, bound, bound + 1} {
			ours.Add(d)
			theirs.observe(d.Seconds())
		}
	}
	theirs.compare(t, ours.Buckets)
}

func TestSizes(t *testing.T) {
	var ours Sizes
	theirs := newTheirs([]float64{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3})
	for size := range 1 << 16 {
		ours.Add(size)
		theirs.observe(float64(size))
	}
	var merged Sizes
	merged.Merge(&ours)
	theirs.compare(t, merged.Buckets)
}

// theirs counts as documented by Prometheus: a bucket contains values up to its bound.
type theirs struct {
	bounds []float64
	values []float64
}

func newTheirs(bounds []float64) *theirs { return &theirs{bounds: bounds} }

func (h *theirs) observe(v float64) { h.values = append(h.values, v) }

func (h *theirs) compare(t *testing.T, ours func() (uint64, float64, map[float64]uint64)) {
	t.Helper()
	count, sum, upTo := ours()
	total := 0.0
	for _, v := range h.values {
		total += v
	}
	if count != uint64(len(h.values)) || math.Abs(sum-total) > total*1e-9 || len(upTo) != len(h.bounds) {
		t.Errorf("%d with the sum %v in %d buckets, want %d with %v in %d", count, sum, len(upTo), len(h.values), total, len(h.bounds))
	}
	for _, bound := range h.bounds {
		want := uint64(0)
		for _, v := range h.values {
			if v <= bound {
				want++
			}
		}
		if got, ok := upTo[bound]; !ok || got != want {
			t.Errorf("up to %v: got %d, want %d", bound, got, want)
		}
	}
}

// exponential is ExponentialBuckets of the Prometheus Go client.
func exponential(start, factor float64, n int) (bounds []float64) {
	for range n {
		bounds = append(bounds, start)
		start *= factor
	}
	return bounds
}
