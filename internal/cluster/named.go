package cluster

import (
	"maps"
	"slices"
	"strings"
)

// Limits of the selectors that name Services. A selector is part of a URL, which some proxies cut at 8 KiB; a comma
// takes three octets there.
const (
	maxSelector = 4096
	maxBatches  = 16
)

// batches keeps the names of Services that have to be watched by name in sets that change as little as possible: a
// set that changes has to be listed anew.
type batches struct {
	sets []map[string]bool
}

// update has the batches hold the names that are wanted, and at most as many others. It reports whether any selector
// has changed.
func (b *batches) update(wanted map[string]int) (changed bool) {
	held := make(map[string]bool)
	for i, set := range b.sets {
		kept := make(map[string]bool)
		for name := range set {
			if wanted[name] > 0 {
				kept[name] = true
			}
		}
		if 2*len(kept) <= len(set) && len(kept) < len(set) { // a name too many costs less than a new list
			b.sets[i], changed = kept, true
		}
		maps.Copy(held, b.sets[i])
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[name] > 0 && !held[name] {
			b.add(name)
			changed = true
		}
	}
	for len(b.sets) > 0 && len(b.sets[len(b.sets)-1]) == 0 {
		b.sets = b.sets[:len(b.sets)-1]
	}
	return changed
}

func (b *batches) add(name string) {
	for _, set := range b.sets {
		if selectorSize(set)+selectorCost(name) <= maxSelector {
			set[name] = true
			return
		}
	}
	b.sets = append(b.sets, map[string]bool{name: true})
}

func selectorCost(name string) int { return len(name) + len("%2C") }

func selectorSize(set map[string]bool) (size int) {
	for name := range set {
		size += selectorCost(name)
	}
	return size
}

// selectors returns the label selectors. Slices that carry the headless label are watched already, and left out. With
// more names than maxBatches selectors hold, one selects every slice of the others.
func (b *batches) selectors() []string {
	const rest = "!" + headlessLabel
	if len(b.sets) > maxBatches {
		return []string{rest}
	}
	all := make([]string, len(b.sets))
	for i, set := range b.sets {
		names := slices.Sorted(maps.Keys(set))
		if len(names) == 0 {
			names = []string{"-"} // no Service has this name: the batch stays in its place, and selects nothing
		}
		all[i] = serviceLabel + " in (" + strings.Join(names, ",") + ")," + rest
	}
	return all
}
