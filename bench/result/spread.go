package result

import (
	"math"
	"slices"
)

// Spread is the range between two slices that holds the true median with 95 % confidence. The zero
// Spread means that there were too few slices to tell.
type Spread struct{ Low, High float64 }

// confidence leaves fewer than six values without a spread.
const confidence = 0.95

// spreadOf drops as many values from either end as the confidence allows. The true median lies
// below the k-th smallest of n values with the probability that fewer than k of n fair coins show
// heads, whatever the distribution of the values is.
func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	k, outside := 0, 0.0
	for exactly := math.Pow(2, -float64(n)); k < n; k++ { // the probability of k heads
		if outside += 2 * exactly; outside > 1-confidence {
			break
		}
		exactly *= float64(n-k) / float64(k+1)
	}
	if k == 0 {
		return Spread{}
	}
	return Spread{sorted[k-1], sorted[n-k]}
}

// Holds reports whether a value lies in the range: the measurement cannot tell it from the median.
func (s Spread) Holds(value float64) bool { return s.Low <= value && value <= s.High && s.High > 0 }

// String is the range as a cell of a table.
func (s Spread) String() string {
	if s == (Spread{}) {
		return absent
	}
	return number(s.Low) + "–" + number(s.High)
}

// Ratio is the median of the rounds' ratios between two servers, and their spread. The zero Ratio
// means that no round had both.
type Ratio struct {
	Median float64
	Spread Spread
}

// within is the mark of a multiple whose spread holds 1.
const within = "≈"

// String is the ratio as a cell of a table. A mark says that its spread holds 1: the measurement
// does not tell which of the two servers has the higher value.
func (r Ratio) String() string {
	if r.Spread.Holds(1) && r.Spread.Low < r.Spread.High {
		return times(r.Median) + within
	}
	return times(r.Median)
}
