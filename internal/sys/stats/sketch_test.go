package stats

import (
	"math/rand"
	"strconv"
	"testing"
)

// checkSketch adds keys and compares the sketch with exact counts: it keeps each key above its
// share, and its error is within the stated bound.
func checkSketch(t *testing.T, size int, keys []byte) {
	t.Helper()
	s, exact := NewSketch[struct{}](size), map[string]float64{}
	for _, k := range keys {
		key := strconv.Itoa(int(k))
		s.Add(key, 1)
		exact[key]++
	}
	if len(s.Entries) > size {
		t.Fatalf("got %d entries, want at most %d", len(s.Entries), size)
	}
	sum := 0.0
	for key, e := range s.Entries {
		sum += e.Weight
		if e.Weight < exact[key] || e.Weight-e.Over > exact[key] {
			t.Errorf("%s: weight %v, Over %v, true weight %v", key, e.Weight, e.Over, exact[key])
		}
	}
	if sum != float64(len(keys)) {
		t.Errorf("the weights add up to %v, want %d", sum, len(keys))
	}
	for key, n := range exact {
		if n > float64(len(keys))/float64(size) && s.Entries[key] == nil {
			t.Errorf("%s was added %v of %d times but is not kept", key, n, len(keys))
		}
	}
}

func FuzzSketch(f *testing.F) {
	f.Add(uint8(1), []byte("aab"))
	f.Add(uint8(3), []byte("abcdabceabcfaaaa"))
	f.Add(uint8(8), []byte{})
	f.Fuzz(func(t *testing.T, size uint8, keys []byte) {
		checkSketch(t, max(1, int(size)), keys)
	})
}

// TestSketch: names as queried on a node, with few frequent ones, followed by a flood of others.
func TestSketch(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	zipf := rand.NewZipf(random, 1.2, 1, 255)
	keys := make([]byte, 20_000)
	for i := range keys {
		keys[i] = byte(zipf.Uint64())
	}
	checkSketch(t, 40, keys)
}
