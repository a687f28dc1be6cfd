package zone

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// Limits of ready responses: their size, which nearly all responses meet, and their number. At the
// maximum size they take 9 MiB.
const (
	maxReady = 512
	minSlots = 1 << 10
	maxSlots = 1 << 14
)

// A readyTable holds responses to questions that were seen twice; a single query leaves only a tag.
// Each response has two possible slots. The table is read and written without a lock; a lost
// response is composed again.
type readyTable struct {
	slots []atomic.Pointer[ready] // a power of two
	tags  []atomic.Uint32         // per pair of slots: tag of the last question that is in neither
}

// newReadyTable returns a table with room for the questions about that many objects: types, and
// names that do not exist.
func newReadyTable(c Counts) *readyTable {
	n := min(max(minSlots, 1<<bits.Len(uint(4*c.Services))), maxSlots)
	return &readyTable{slots: make([]atomic.Pointer[ready], n), tags: make([]atomic.Uint32, n/2)}
}

// pair returns the index of the first of the two slots for a hash.
func (t *readyTable) pair(hash uint64) int { return int(hash) & (len(t.slots) - 2) }

func (t *readyTable) find(hash uint64, question []byte) *ready {
	at := t.pair(hash)
	for i := range 2 {
		if e := t.slots[at+i].Load(); e != nil && e.hash == hash && bytes.Equal(e.wire[headerSize:e.end], question) {
			return e
		}
	}
	return nil
}

// consider stores the response of a lookup, answered with these bytes, if its question was seen
// before.
func (t *readyTable) consider(l *lookup, hash uint64, answer []byte) {
	if len(answer) > maxReady+optSize || answer[2]&(bitTC>>8) != 0 {
		return
	}
	at, tag := t.pair(hash), uint32(hash>>32)
	if asked := &t.tags[at/2]; asked.Load() != tag {
		asked.Store(tag)
		return
	}
	if t.find(hash, l.key()) != nil { // already there, but did not fit this client
		return
	}
	e := l.ready(hash)
	switch {
	case e == nil:
	case t.slots[at].Load() == nil || t.slots[at+1].Load() != nil && hash>>31&1 == 0:
		t.slots[at].Store(e)
	default:
		t.slots[at+1].Store(e)
	}
}

// ready returns the response of a finished lookup, or nil if it is too long.
func (l *lookup) ready(hash uint64) *ready {
	e := &ready{hash: hash}
	if len(l.records) > 0 {
		e.inCase = l.records[0].rtype == dns.TypeSRV
	}
	if turning := l.turning(); turning > 1 {
		e.turns = uint16(turning)
	}
	l.ordered = true
	l.asked = l.lower[:len(l.asked)]
	l.wire = l.appendResponse(l.wire[:0], asking{limit: maxReady})
	if binary.BigEndian.Uint16(l.wire[2:])&bitTC != 0 || int(binary.BigEndian.Uint16(l.wire[arCount:])) != len(l.extra) {
		return nil
	}
	e.wire = bytes.Clone(l.wire)
	e.end = uint16(headerSize + len(l.key()))
	at := int(e.end)
	for range e.turns {
		_, at = dnswire.Record(e.wire, at)
	}
	e.answers = uint16(at)
	return e
}
