package dnsserver

import "time"

// sampler picks cache hits for a watch that samples: one in stride. Misses take thousands of times
// as long as hits, so all of them are reported. A sampler belongs to one goroutine.
type sampler struct {
	began  time.Time // start of the window
	hits   int       // hits in the window
	stride int       // odd, because clients send A and AAAA queries in turn
	left   int       // hits before the next pick
}

// sampleWindow is the interval between adjustments of the stride to the hit rate.
const sampleWindow = 100 * time.Millisecond

// begin must be called before the hits of each batch, with the time of receipt. perSecond limits
// the picks; 0 picks all hits.
func (s *sampler) begin(now time.Time, perSecond int) {
	if perSecond == 0 {
		s.stride, s.left = 1, 0
		return
	}
	s.stride = max(s.stride, 1)
	budget := max(1, perSecond*int(sampleWindow)/int(time.Second))
	switch elapsed := now.Sub(s.began); {
	case elapsed >= sampleWindow:
		perWindow := int(int64(s.hits) * int64(sampleWindow) / int64(elapsed))
		s.stride = max(1, perWindow/budget) | 1
		s.began, s.hits, s.left = now, 0, min(s.left, s.stride-1)
	case s.hits > 2*budget*s.stride: // a burst: the previous window was quieter
		s.stride = 4*s.stride | 1
	}
}

// take counts a hit. It returns the number of hits that this one represents, or 0 if it is not
// picked.
func (s *sampler) take() int {
	s.hits++
	if s.left > 0 {
		s.left--
		return 0
	}
	s.left = s.stride - 1
	return s.stride
}
