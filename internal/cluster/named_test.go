package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// Whatever comes and goes, the selectors select the slices of all names that are wanted, and at most as many others.
func TestBatches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b batches
	wanted := make(map[string]int)
	for round := range 100 {
		for range random.IntN(60) {
			name := fmt.Sprintf("service-with-a-name-of-some-length-%d", random.IntN(600))
			if random.IntN(2+round%5) == 0 {
				delete(wanted, name)
			} else {
				wanted[name]++
			}
		}
		b.update(wanted)
		after := b.selectors()
		selected := 0
		for _, selector := range after {
			if len(selector) > maxSelector+200 {
				t.Fatalf("a selector of %d octets", len(selector))
			}
			parsed, err := labels.Parse(selector)
			if err != nil {
				t.Fatalf("%s: %v", selector, err)
			}
			selected += strings.Count(selector, ",")
			if !parsed.Matches(labels.Set{serviceLabel: firstName(selector)}) ||
				parsed.Matches(labels.Set{serviceLabel: firstName(selector), headlessLabel: ""}) {
				t.Fatalf("%s does not select as it should", selector)
			}
		}
		all := strings.Join(after, " ")
		for name := range wanted {
			if !strings.Contains(all, name) {
				t.Fatalf("round %d: %s is not selected", round, name)
			}
		}
		if selected > 2*len(wanted)+len(after) {
			t.Fatalf("round %d: %d names selected, %d wanted", round, selected, len(wanted))
		}
	}
}

func firstName(selector string) string {
	_, rest, _ := strings.Cut(selector, "(")
	end := strings.IndexAny(rest, ",)")
	return rest[:end]
}

// A name more or less changes one selector, and not all.
func TestBatchesChangeLittle(t *testing.T) {
	var b batches
	wanted := make(map[string]int)
	for i := range 1000 {
		wanted[fmt.Sprintf("name-%d", i)] = 1
	}
	b.update(wanted)
	before := b.selectors()
	if len(before) < 3 {
		t.Fatalf("%d selectors", len(before))
	}
	wanted["another"] = 1
	b.update(wanted)
	if n := differences(before, b.selectors()); n != 1 {
		t.Errorf("%d selectors changed by one name more", n)
	}
	before = b.selectors()
	delete(wanted, "name-5")
	if b.update(wanted); differences(before, b.selectors()) != 0 {
		t.Error("a name less changed a selector")
	}
	for i := range 500 { // the first selectors go, those after them stay where they are
		delete(wanted, fmt.Sprintf("name-%d", i))
	}
	last := len(before) - 1
	b.update(wanted)
	after := b.selectors()
	nothing, err := labels.Parse(after[0])
	if err != nil || nothing.Matches(labels.Set{serviceLabel: "name-500"}) || nothing.Matches(labels.Set{}) || after[last] != before[last] {
		t.Errorf("%q, %v", after, err)
	}
	clear(wanted)
	if b.update(wanted); len(b.selectors()) != 0 {
		t.Errorf("nothing is wanted, and %q", b.selectors())
	}
}

func differences(a, b []string) (n int) {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			n++
		}
	}
	return n
}

// With more names than selectors can hold, all slices without the headless label are watched.
func TestBatchesAreBounded(t *testing.T) {
	var b batches
	wanted := make(map[string]int)
	for i := range 10000 {
		wanted[fmt.Sprintf("service-%d", i)] = 1
	}
	b.update(wanted)
	if got := b.selectors(); !slices.Equal(got, []string{"!" + headlessLabel}) {
		t.Errorf("%d selectors", len(got))
	}
	wanted = maps.Collect(maps.All(map[string]int{"one": 1}))
	b.update(wanted)
	if got := b.selectors(); len(got) != 1 || !strings.Contains(got[0], "in (one)") {
		t.Errorf("%q", got)
	}
}
