package zone

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"

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
