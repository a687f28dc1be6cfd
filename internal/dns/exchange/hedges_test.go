package exchange

import "testing"

// TestHedgesAreBounded: at most 100 questions at once go to a second server needlessly, and one in
// 25 after that.
func TestHedgesAreBounded(t *testing.T) {
	var h Hedges
	n := 0
	for h.May(0) {
		h.Waste(0)
		n++
	}
	if n != 100 {
		t.Errorf("got %d hedges at once, want 100", n)
	}
	n = 0
	for asked := range uint64(10_000) {
		if h.May(asked) {
			h.Waste(asked)
			n++
		}
	}
	if n < 390 || n > 400 {
		t.Errorf("got %d hedges in 10000 queries", n)
	}
}
