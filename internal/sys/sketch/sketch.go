// Package sketch keeps the heaviest keys of a stream in bounded memory.
package sketch

// Sketch keeps the keys with the largest weights: the space-saving algorithm of Metwally, Agrawal and El Abbadi ("Efficient Computation of
// Frequent and Top-k Elements in Data Streams", 2005). A key whose weight is more than the total divided by the size is always kept.
type Sketch[D any] struct {
	Entries map[string]*Entry[D] // not to be added to

	size int
}

// Entry is a key with its weight and details.
type Entry[D any] struct {
	Weight  float64 // true weight, and Over at most
	Over    float64 // weight taken over from the key whose place this is
	Details D
}

// New returns a Sketch of at most size keys.
func New[D any](size int) *Sketch[D] {
	return &Sketch[D]{size: size, Entries: make(map[string]*Entry[D])}
}

// Add adds to the weight of a key and returns the key's details, which are zero for a key that was not kept before.
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

// least returns the key of the smallest weight.
func (s *Sketch[D]) least() (key string) {
	var smallest *Entry[D]
	for k, e := range s.Entries {
		if smallest == nil || e.Weight < smallest.Weight {
			key, smallest = k, e
		}
	}
	return key
}

// faded is a weight below which a key is forgotten.
const faded = 0.01

// Fade multiplies all weights by keep, and calls each with the details of every key that stays.
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

// Drop forgets the keys that gone reports.
func (s *Sketch[D]) Drop(gone func(D) bool) {
	for key, e := range s.Entries {
		if gone(e.Details) {
			delete(s.Entries, key)
		}
	}
}
