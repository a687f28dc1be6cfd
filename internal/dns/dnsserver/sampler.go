package dnsserver

import "time"

// sampler picks the hits that a sampled watch is told of: one in stride. What is not a hit takes thousands of times as long as one, so it
// is always told of. A sampler belongs to one goroutine.
type sampler struct {
	began  time.Time // start of the window
	hits   int       // hits in the window
	stride int       // odd: clients ask for A and AAAA in turn
	left   int       // hits before the next pick
}

// sampleWindow is the time after which the stride follows the rate of hits.
const sampleWindow = 100 * time.Millisecond

// begin is called before the hits of one batch, with the time that the batch was received. perSecond bounds the picks; 0: all hits are
// picked.
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
	case s.hits > 2*budget*s.stride: // a burst: the window before was quieter
		s.stride = 4*s.stride | 1
	}
}

// take counts a hit and returns the number of hits that it stands for; 0: it is not picked.
func (s *sampler) take() int {
	s.hits++
	if s.left > 0 {
		s.left--
		return 0
	}
	s.left = s.stride - 1
	return s.stride
}
