package dnsserver

import (
	"testing"
	"time"
)

// TestSampler: at a low rate all hits are picked. At a high rate the picks stay within the limit,
// and their weights add up to the number of hits.
func TestSampler(t *testing.T) {
	for _, test := range []struct {
		name           string
		perSecond      int
		rate           int // hits per second
		least, most    int // picks in the last second
		deviates       float64
		batch, seconds int
	}{
		{name: "no limit", perSecond: 0, rate: 50_000, least: 50_000, most: 50_000, batch: 10, seconds: 3},
		{name: "rate below the limit", perSecond: 250, rate: 200, least: 200, most: 200, batch: 1, seconds: 3},
		{name: "rate above the limit", perSecond: 250, rate: 100_000, least: 150, most: 300, deviates: 0.02, batch: 32, seconds: 5},
		{name: "rate above the limit, one at a time", perSecond: 250, rate: 100_000, least: 150, most: 300, deviates: 0.02, batch: 1, seconds: 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s sampler
			now, picks, stood := time.Now(), 0, 0
			for second := range test.seconds {
				picks, stood = 0, 0
				for n := 0; n < test.rate; n += test.batch {
					s.begin(now, test.perSecond)
					for range test.batch {
						if stands := s.take(); stands > 0 {
							picks++
							stood += stands
						}
					}
					now = now.Add(time.Duration(test.batch) * time.Second / time.Duration(test.rate))
				}
				if second == 0 && test.perSecond > 0 && picks > 5*test.perSecond {
					t.Errorf("got %d picks in the first second: burst not detected", picks)
				}
			}
			if picks < test.least || picks > test.most {
				t.Errorf("got %d picks", picks)
			}
			if off := float64(stood)/float64(test.rate) - 1; off > test.deviates || off < -test.deviates {
				t.Errorf("the picks represent %d of %d hits", stood, test.rate)
			}
		})
	}
}

// TestSamplerOfPairs: if clients alternate between A and AAAA, both are picked.
func TestSamplerOfPairs(t *testing.T) {
	var s sampler
	now, picked := time.Now(), [2]int{}
	for i := range 200_000 {
		s.begin(now, 250)
		if s.take() > 0 {
			picked[i%2]++
		}
		now = now.Add(10 * time.Microsecond)
	}
	if picked[0] < picked[1]*3/4 || picked[1] < picked[0]*3/4 {
		t.Errorf("picked %d of one type, %d of the other", picked[0], picked[1])
	}
}
