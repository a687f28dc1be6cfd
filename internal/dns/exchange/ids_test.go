package exchange

import "testing"

// TestIDs: 2^20 IDs of each source are spread evenly, over all values and over those of either octet, and none follows another
// more often than chance has it. The bounds are passed by chance once in a million runs.
func TestIDs(t *testing.T) {
	const draws = 1 << 20
	pool := new(IDs)
	for name, next := range map[string]func() uint16{"newID": newID, "a lane's": pool.Next} {
		t.Run(name, func(t *testing.T) {
			all, high, low := make([]int, 1<<16), make([]int, 256), make([]int, 256)
			follows := 0
			before := next()
			for range draws {
				id := next()
				all[id]++
				high[id>>8]++
				low[id&0xff]++
				if id == before+1 || id == before-1 || id == before {
					follows++
				}
				before = id
			}
			// A chi-square of k degrees of freedom is k ± sqrt(2k).
			for _, row := range []struct {
				what  string
				drawn []int
				most  float64
			}{{"all", all, 67300}, {"high octet", high, 375}, {"low octet", low, 375}} {
				if got := chiSquare(row.drawn, draws); got > row.most {
					t.Errorf("%s: chi-square %.0f of %d values", row.what, got, len(row.drawn))
				}
			}
			if follows > 85 || follows < 18 { // 48 ± 7
				t.Errorf("%d follow the one before", follows)
			}
		})
	}
}

func chiSquare(drawn []int, draws int) (sum float64) {
	expected := float64(draws) / float64(len(drawn))
	for _, n := range drawn {
		difference := float64(n) - expected
		sum += difference * difference / expected
	}
	return sum
}
