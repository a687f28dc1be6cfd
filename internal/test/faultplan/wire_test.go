package faultplan

import (
	"math"
	"testing"
)

// TestNextBits: ports that repeat can be guessed.
func TestNextBits(t *testing.T) {
	for _, row := range []struct {
		name     string
		distinct int
		want     float64
	}{
		{"one port", 1, 0},
		{"16 ports in turn", 16, 4},
		{"as many as queries", 4000, 14.8},
	} {
		var all []uint16
		for i := range 4000 {
			all = append(all, uint16(i%row.distinct))
		}
		if got := nextBits(all); math.Abs(got-row.want) > 0.02 {
			t.Errorf("%s: got %.2f bits, want %.2f", row.name, got, row.want)
		}
	}
}
