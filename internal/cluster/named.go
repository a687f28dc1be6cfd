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
type batches struct{ sets []*batch }

// batch is the names of one selector.
type batch struct {
	names map[string]bool
	size  int // octets in the selector
}

func (b *batch) add(name string) {
	b.names[name] = true
	b.size += cost(name)
}

func cost(name string) int { return len(name) + len("%2C") }

// update has the batches hold the names that are wanted, and at most as many others.
func (b *batches) update(wanted map[string]int) {
	held := make(map[string]bool)
	for i, set := range b.sets {
		kept := &batch{names: make(map[string]bool)}
		for name := range set.names {
			if wanted[name] > 0 {
				kept.add(name)
			}
		}
		if 2*len(kept.names) <= len(set.names) { // a name too many costs less than a new list
			b.sets[i] = kept
		}
		maps.Copy(held, b.sets[i].names)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !held[name] {
			b.add(name)
		}
	}
	for len(b.sets) > 0 && len(b.sets[len(b.sets)-1].names) == 0 {
		b.sets = b.sets[:len(b.sets)-1]
	}
}

func (b *batches) add(name string) {
	for _, set := range b.sets {
		if set.size+cost(name) <= maxSelector {
			set.add(name)
			return
		}
	}
	made := &batch{names: make(map[string]bool)}
	made.add(name)
	b.sets = append(b.sets, made)
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
		names := slices.Sorted(maps.Keys(set.names))
		if len(names) == 0 { // it stays in its place, and selects nothing
			all[i] = serviceLabel + ",!" + serviceLabel
			continue
		}
		all[i] = serviceLabel + " in (" + strings.Join(names, ",") + ")," + rest
	}
	return all
}
