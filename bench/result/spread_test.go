package result

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   string
	}{
		{"no values", nil, "-"},
		{"five are too few", []float64{1, 2, 3, 4, 5}, "-"},
		{"six: minimum to maximum", []float64{6, 5, 4, 3, 2, 1}, "1.00–6.00"},
		{"eight: minimum to maximum", []float64{1, 2, 3, 4, 5, 6, 7, 8}, "1.00–8.00"},
		{"nine: without one outlier at either end", []float64{500, 2, 3, 4, 5, 6, 7, 8, 0.1}, "2.00–8.00"},
		{"twenty", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, "6.00–15.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := slices.Clone(test.values)
			if got := spreadOf(test.values).String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if !slices.Equal(before, test.values) {
				t.Error("the values were reordered")
			}
		})
	}
}

// TestSpreadCovers: for many samples of a long-tailed distribution, the spread contains the true
// median about as often as promised.
func TestSpreadCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 9, 12, 25} {
		const samples = 20_000
		held := 0
		for range samples {
			values := make([]float64, n)
			for i := range values {
				values[i] = random.ExpFloat64()
			}
			if spreadOf(values).Holds(math.Ln2) {
				held++
			}
		}
		if share := float64(held) / samples; share < confidence-0.005 || share > 0.99 {
			t.Errorf("%d values: %.3f of the spreads hold the median", n, share)
		}
	}
}

func TestRatio(t *testing.T) {
	for _, test := range []struct {
		name  string
		ratio Ratio
		want  string
	}{
		{"above", Ratio{1.2, Spread{1.1, 1.3}}, "1.20×"},
		{"below", Ratio{0.8, Spread{0.7, 0.99}}, "0.80×"},
		{"not significant", Ratio{1.04, Spread{0.98, 1.1}}, "1.04×≈"},
		{"the echo server compared with itself", Ratio{1, Spread{1, 1}}, "1.00×"},
		{"no spread", Ratio{1, Spread{}}, "1.00×"},
		{"not measured", Ratio{}, "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.ratio.String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
