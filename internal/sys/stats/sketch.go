package stats

// Sketch keeps the keys with the largest weights, using the space-saving algorithm of Metwally,
// Agrawal and El Abbadi ("Efficient Computation of Frequent and Top-k Elements in Data Streams",
// 2005). A key is always kept if its weight exceeds the total weight divided by the size.
type Sketch[D any] struct {
	Entries map[string]*Entry[D] // read-only for callers

	size int
}

// Entry is a key with its weight and details.
type Entry[D any] struct {
	Weight  float64 // true weight plus at most Over
	Over    float64 // weight inherited from the key that was replaced
	Details D
}

// NewSketch returns a Sketch for at most size keys.
func NewSketch[D any](size int) *Sketch[D] {
	return &Sketch[D]{size: size, Entries: make(map[string]*Entry[D])}
}

// Add adds weight to a key and returns the key's details, which are zero for a new key.
func (s *Sketch[D]) Add(key string, weight float64) *D {
	e := s.Entries[key]
	if e == nil {
		e = new(Entry[D])
		if len(s.Entries) >= s.size {
			least := s.least()
			e.Weight = s.Entries[least].Weight
			e.Over = e.Weight
			delete(s.Entries, least)
		}
		s.Entries[key] = e
	}
	e.Weight += weight
	return &e.Details
}

// least returns the key with the smallest weight.
func (s *Sketch[D]) least() (key string) {
	var smallest *Entry[D]
	for k, e := range s.Entries {
		if smallest == nil || e.Weight < smallest.Weight {
			key, smallest = k, e
		}
	}
	return key
}

// faded is the weight below which Fade drops a key.
const faded = 0.01

// Fade multiplies all weights by keep, and calls each with the details of every key that remains.
func (s *Sketch[D]) Fade(keep float64, each func(*D)) {
	for key, e := range s.Entries {
		e.Weight *= keep
		e.Over *= keep
		if e.Weight < faded {
			delete(s.Entries, key)
			continue
		}
		each(&e.Details)
	}
}

// Drop removes the keys for which gone returns true.
func (s *Sketch[D]) Drop(gone func(D) bool) {
	for key, e := range s.Entries {
		if gone(e.Details) {
			delete(s.Entries, key)
		}
	}
}
