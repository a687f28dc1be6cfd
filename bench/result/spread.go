package result

import (
	"math"
	"slices"
)

// Spread is a range between two slices that contains the true median with 95 % confidence. The zero
// Spread means that there were too few slices.
type Spread struct{ Low, High float64 }

// confidence is the probability that a Spread contains the true median. Fewer than six values have
// no spread.
const confidence = 0.95

// spreadOf drops as many values from either end as the confidence allows. The true median is below
// the k-th smallest of n values with the probability that fewer than k of n fair coins show heads,
// regardless of the distribution of the values.
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

// Holds reports whether a value is in the range, so that the measurement cannot distinguish it from
// the median.
func (s Spread) Holds(value float64) bool { return s.Low <= value && value <= s.High && s.High > 0 }

// String returns the range as a table cell.
func (s Spread) String() string {
	if s == (Spread{}) {
		return absent
	}
	return number(s.Low) + "–" + number(s.High)
}

// Ratio is the median of the rounds' ratios between two servers, and their spread. The zero Ratio
// means that no round had both servers.
type Ratio struct {
	Median float64
	Spread Spread
}

// within marks a ratio whose spread includes 1.
const within = "≈"

// String returns the ratio as a table cell. It is marked if its spread includes 1, because the
// measurement then does not show which of the two servers has the higher value.
func (r Ratio) String() string {
	if r.Spread.Holds(1) && r.Spread.Low < r.Spread.High {
		return times(r.Median) + within
	}
	return times(r.Median)
}
