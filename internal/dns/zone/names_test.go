package zone

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestNames: a number belongs to one key from add to remove, and frozen names never change.
func TestNames(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b namesBuilder
	known := map[uint32]string{}
	type frozen struct {
		names names
		known map[uint32]string
	}
	var before []frozen
	for i := range 20_000 {
		switch {
		case random.IntN(100) == 0:
			before = append(before, frozen{b.freeze(), maps.Clone(known)})
		case len(known) > 0 && random.IntN(5) < 2:
			for number := range known {
				b.remove(number)
				delete(known, number)
				break
			}
		default:
			key := fmt.Sprintf("key-%d", i)
			number := b.add(key)
			if known[number] != "" || number == 0 {
				t.Fatalf("%s got the number %d, which %q has", key, number, known[number])
			}
			known[number] = key
		}
	}
	for _, f := range append(before, frozen{b.freeze(), known}) {
		for number, key := range f.known {
			if got := f.names.of(number); got != key {
				t.Fatalf("%d: %q, want %q", number, got, key)
			}
		}
	}
	if most := 256 * len(b.all); len(known)*4 < most {
		t.Errorf("%d names take the space of %d: numbers are not reused", len(known), most)
	}
}
