package zone

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// ready is a complete response from one Snapshot. It is immutable.
type ready struct {
	hash uint64 // of its question
	// wire is the response as a message: ID 0, RD and CD clear, the question in lower case, no OPT
	// record.
	wire    []byte
	end     uint16 // of the question in wire
	answers uint16 // offset of the end of the rotating records in the answer section
	turns   uint16 // number of rotating records; 0 if the order is fixed
	inCase  bool   // names in its records are spelled out like the question, instead of pointing to it
}

// AppendReady answers a query whose question was already answered from the same Snapshot. It
// appends the same response to dst as AppendResponse would, and returns the result. question is the
// query's AppendKey. If ok is false, dst is unchanged and the caller uses AppendResponse. It
// allocates nothing if dst has room for the response.
func (r *Resolver) AppendReady(dst []byte, q *dnsserver.WireQuery, question []byte) (response []byte, ok bool) {
	now := r.now.Load()
	if now == nil || now.ready == nil || !r.mayBeReady(question) {
		return dst, false
	}
	e := now.ready.find(maphash.Bytes(r.seed, question), question)
	if e == nil {
		return dst, false
	}
	limit := q.Limit
	if q.EDNS {
		limit -= optSize
	}
	if len(e.wire) > limit || e.inCase && !bytes.Equal(q.Question(), question) {
		return dst, false
	}
	first := 0
	if e.turns > 0 {
		first = r.cfg.Rotate(int(e.turns))
	}
	return e.appendTo(dst, q, first), true
}

// mayBeReady reports whether a question is for an address or a name below a cluster domain. Other
// questions skip the lookup.
func (r *Resolver) mayBeReady(question []byte) bool {
	name := question[:len(question)-typeAndClass]
	for i := range r.cfg.domains {
		if d := r.cfg.domains[i].wire; len(name) >= len(d) && string(name[len(name)-len(d):]) == d {
			return true
		}
	}
	return binary.BigEndian.Uint16(question[len(name):]) == dns.TypePTR
}

// appendTo appends the response to a query, starting with record first of the answer section.
func (e *ready) appendTo(dst []byte, q *dnsserver.WireQuery, first int) []byte {
	start := len(dst)
	dst = append(dst, e.wire...)
	m := dst[start:]
	copy(m, q.Msg[:2]) // the ID
	m[2] |= q.Msg[2] & (bitRD >> 8)
	m[3] |= q.Msg[3] & bitCD
	copy(m[headerSize:], q.Question())
	if first > 0 {
		e.turn(m, first)
	}
	if q.EDNS {
		m[arCount+1]++ // no overflow, because the response is short
		do := byte(0)
		if q.DO {
			do = bitDO >> 8
		}
		dst = append(dst, 0, 0, byte(dns.TypeOPT), ednsSize>>8, ednsSize&0xff, 0, 0, do, 0, 0, 0)
	}
	return dst
}

// turn rotates the answer section of a copy so that it begins with record first.
func (e *ready) turn(m []byte, first int) {
	from := int(e.end)
	for range first {
		_, from = dnswire.Record(e.wire, from)
	}
	begin, end := int(e.end), int(e.answers)
	copy(m[begin+copy(m[begin:], e.wire[from:end]):], e.wire[begin:from])
	if !e.inCase { // no SRV records
		return
	}
	for at := end; at < len(m); { // the additional section has the hosts in the answers
		owner := int(binary.BigEndian.Uint16(m[at:])) &^ pointerBits
		if owner < from {
			owner += end - from
		} else {
			owner -= from - begin
		}
		binary.BigEndian.PutUint16(m[at:], uint16(pointerBits|owner))
		_, at = dnswire.Record(m, at)
	}
}

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
