package exchange

import "testing"

// TestIDs: 2^20 IDs of each source are evenly distributed, over all values and over the values of
// each byte, and successive IDs are independent. A correct source fails once in a million runs.
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
			// A chi-square with k degrees of freedom is k ± sqrt(2k).
			for _, row := range []struct {
				what  string
				drawn []int
				most  float64
			}{{"all", all, 67300}, {"high octet", high, 375}, {"low octet", low, 375}} {
				if got := chiSquare(row.drawn, draws); got > row.most {
					t.Errorf("%s: chi-square is %.0f for %d values", row.what, got, len(row.drawn))
				}
			}
			if follows > 85 || follows < 18 { // 48 ± 7
				t.Errorf("%d IDs are the successor of the previous one", follows)
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
