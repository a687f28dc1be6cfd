package cache

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unique"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// An entry is one stored response. Once stored, it is immutable except for its links to other
// entries.
type entry struct {
	// wire is the response as a message: ID 0, RD, CD, AA and TC clear, one question in lower case,
	// and no OPT record. Names that share a suffix with the question are compressed to pointers
	// into it, so that each client gets its own letter case. For a failure, firstCause follows the
	// message.
	wire   []byte
	hash   uint64                // of its key; set by the store
	next   atomic.Pointer[entry] // in its chain of the store
	stored time.Duration         // time on the cache's clock
	life   time.Duration
	end    uint16 // of the question in wire
	flags  keyFlags

	visited atomic.Bool   // since the hand passed; for SIEVE
	mark    atomic.Uint32 // of AppendAndMark; 0 if none
	// Earliest time of the next refresh, in ticks of the cache's clock; the maximum value while a
	// refresh is running.
	again        atomic.Uint32
	server       nameserver.Handle
	newer, older *entry // in the list of its shard; guarded by the shard's mu
}

// entryOf returns an entry with a copy of wire. Most messages share one allocation with
// their entry: with its 96 bytes they fill the sizes 160, 208 and 256 of the allocator.
func entryOf(wire []byte) *entry {
	var e *entry
	switch n := len(wire); {
	case n <= 64:
		both := new(struct {
			entry
			room [64]byte
		})
		e, both.wire = &both.entry, both.room[:n]
	case n <= 112:
		both := new(struct {
			entry
			room [112]byte
		})
		e, both.wire = &both.entry, both.room[:n]
	case n <= 160:
		both := new(struct {
			entry
			room [160]byte
		})
		e, both.wire = &both.entry, both.room[:n]
	default:
		e = &entry{wire: make([]byte, n)}
	}
	copy(e.wire, wire)
	return e
}

// newEntry makes an entry of m. It does not change m, whose names inQuestionsCase has already set
// to the case of q. It returns nil for a message that cannot be packed and parsed again; an
// upstream nameserver may send one.
func newEntry(k key, q *dnsserver.Query, m *dns.Msg, now, life time.Duration) *entry {
	out := dns.Msg{
		MsgHdr:   dns.MsgHdr{Response: true, RecursionAvailable: m.RecursionAvailable, AuthenticatedData: m.AuthenticatedData, Rcode: m.Rcode},
		Question: []dns.Question{{Name: q.Msg.Question[0].Name, Qtype: k.qtype(), Qclass: dns.ClassINET}},
		Answer:   m.Answer,
		Ns:       m.Ns,
		Extra:    slices.DeleteFunc(slices.Clone(m.Extra), isHopByHop),
	}
	wire, err := dnswire.Pack(&out)
	end := dnswire.HeaderSize + len(k.question)
	if err != nil || len(wire) < end {
		return nil
	}
	dnswire.AppendLower(wire[:dnswire.HeaderSize], wire[dnswire.HeaderSize:end-4]) // in place
	if !bytes.Equal(wire[dnswire.HeaderSize:end], k.question) {
		return nil
	}
	if hasEmpty(&out) {
		if _, err := dnswire.Unpack(wire); err != nil {
			return nil
		}
	}
	return &entry{
		wire: wire, end: uint16(end), flags: k.flags,
		server: unique.Make(q.AnsweredBy), stored: now, life: life,
	}
}

// isHopByHop reports whether rr belongs to the upstream connection. dnsserver creates its own OPT
// record for each client.
func isHopByHop(rr dns.RR) bool {
	return rr != nil && (rr.Header().Rrtype == dns.TypeOPT || rr.Header().Rrtype == dns.TypeTSIG)
}

// hasEmpty reports whether a record has no data, or was not parsed from a message. Package dns
// accepts records without data, as in a dynamic update, but may write them with zero fields that it
// then cannot parse, such as an SOA record without names.
func hasEmpty(m *dns.Msg) bool {
	for _, section := range [...][]dns.RR{m.Answer, m.Ns, m.Extra} {
		if slices.ContainsFunc(section, func(rr dns.RR) bool { return rr.Header().Rdlength == 0 }) {
			return true
		}
	}
	return false
}

// perEntry is the memory of an entry besides its bytes: 96 bytes and two pointers to it in the
// store.
const perEntry = 96 + 16

// bytes returns the memory of the entry. Allocations are multiples of at least 16 bytes.
func (e *entry) bytes() int { return perEntry + (cap(e.wire)+15)&^15 }

// isDenial reports whether the response has no answer.
func (e *entry) isDenial() bool { return e.wire[6]|e.wire[7] == 0 }

func (e *entry) key() key { return key{e.wire[dnswire.HeaderSize:e.end], e.flags} }

// age returns the age of the entry in whole seconds, and whether it may still be served. If the
// clock went backwards, the age is 0.
func (e *entry) age(now time.Duration) (seconds uint32, live bool) {
	age := max(0, now-e.stored)
	return uint32(min(age/time.Second, math.MaxInt32)), age < e.life
}

func (e *entry) isLive(now time.Duration) bool { return max(0, now-e.stored) < e.life }

// grow subtracts age from the TTLs of a response made from the entry, which may be cut short. No
// TTL is shorter than the entry's lifetime, so none reaches 0 before that. highest limits the TTLs
// of the answer and authority sections; 0 means no limit.
func (e *entry) grow(response []byte, age, highest uint32) {
	if age == 0 && highest == 0 {
		return
	}
	bounded := int(binary.BigEndian.Uint16(e.wire[6:])) + int(binary.BigEndian.Uint16(e.wire[8:]))
	for at := int(e.end); at < len(response); bounded-- {
		ttlAt, end := dnswire.Record(response, at)
		ttl := binary.BigEndian.Uint32(response[ttlAt:]) - age
		if highest > 0 && bounded > 0 {
			ttl = min(ttl, highest)
		}
		binary.BigEndian.PutUint32(response[ttlAt:], ttl)
		at = end
	}
}

// response returns the response to q at an age below the entry's lifetime, or nil if it cannot be
// parsed. Over UDP it has at most dnswire.MaxUDP bytes, and TC if more are needed. The caller owns
// it. It is never authoritative, even if the upstream was (RFC 1034 section 4.3.1: AA is for
// servers that have the zone).
func (e *entry) response(q *dnsserver.Query, age uint32) *dns.Msg {
	wire := e.wire
	if q.Proto != dnsserver.UDP || len(wire) <= dnswire.MaxUDP {
		wire = bytes.Clone(wire)
	} else {
		cut := dnswire.Fit(wire, int(e.end), dnswire.MaxUDP)
		wire = bytes.Clone(wire[:cut.End])
		cut.SetHeader(wire, false)
	}
	question := q.Msg.Question[0]
	if _, err := dns.PackDomainName(question.Name, wire[:e.end], dnswire.HeaderSize, nil, false); err != nil {
		return nil
	}
	e.grow(wire, age, 0)
	m, err := dnswire.Unpack(wire)
	if err != nil {
		return nil
	}
	m.Id = q.Msg.Id
	m.Question = []dns.Question{question}
	m.RecursionDesired = q.Msg.RecursionDesired
	m.CheckingDisabled = q.Msg.CheckingDisabled
	return m
}

func (e *entry) describe(now time.Duration) Entry {
	age := now - e.stored
	qname, _ := e.key().name() // newEntry and Restore have parsed it
	name, _ := dnsname.Parse(qname)
	return Entry{
		Name:   name, // zero if invalid, as in dnsserver
		QName:  qname,
		Type:   e.key().qtype(),
		Rcode:  int(e.wire[3] & 0xf),
		Server: e.server.Value(),
		Age:    age,
		TTL:    e.life - age,
	}
}
