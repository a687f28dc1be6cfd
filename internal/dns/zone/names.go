package zone

import "slices"

// namesChunk is the number of names that a change copies.
const namesChunk = 256

// names are keys by number. Like a table, they are immutable.
type names []*[namesChunk]string

// of returns the key of a number that add assigned.
func (n names) of(number uint32) string { return n[number/namesChunk][number%namesChunk] }

// namesBuilder builds successive names. The zero value is empty.
type namesBuilder struct {
	all  names
	mine []bool // chunks that no frozen names share
	next uint32
	free []uint32 // released numbers
}

// add assigns a number to a key, starting at 1.
func (b *namesBuilder) add(key string) uint32 {
	var number uint32
	if last := len(b.free) - 1; last >= 0 {
		number, b.free = b.free[last], b.free[:last]
	} else {
		b.next++
		number = b.next
	}
	b.own(number)[number%namesChunk] = key
	return number
}

// remove releases a number for reuse.
func (b *namesBuilder) remove(number uint32) {
	b.own(number)[number%namesChunk] = ""
	b.free = append(b.free, number)
}

// own returns a writable chunk for a number.
func (b *namesBuilder) own(number uint32) *[namesChunk]string {
	i := int(number / namesChunk)
	switch {
	case i == len(b.all):
		b.all, b.mine = append(b.all, new([namesChunk]string)), append(b.mine, true)
	case !b.mine[i]:
		copied := *b.all[i]
		b.all[i], b.mine[i] = &copied, true
	}
	return b.all[i]
}

func (b *namesBuilder) freeze() names {
	clear(b.mine)
	return slices.Clone(b.all)
}
