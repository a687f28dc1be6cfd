package cache

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// An entry is one remembered response. It does not change once it is stored, but
// for its place in the list of its shard.
type entry struct {
	key    key
	name   dnsname.Name
	server nameserver.Server
	msg    *dns.Msg // nobody else has it; without question and OPT
	stored time.Time
	life   time.Duration
	bytes  int

	visited    atomic.Bool // since the hand passed; SIEVE
	refreshing atomic.Bool // it is stale, and is asked for anew
	prev, next *entry      // guarded by the shard's mu
}

// newEntry makes an entry of a copy of m.
func newEntry(k key, q *dnsserver.Query, m *dns.Msg, now time.Time, life time.Duration) *entry {
	e := &entry{key: k, name: q.Name, server: q.AnsweredBy, stored: now, life: life}
	e.msg = m.Copy()
	e.msg.Question = nil
	e.msg.Compress = false
	extra := e.msg.Extra[:0]
	for _, rr := range e.msg.Extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			extra = append(extra, rr)
		}
	}
	e.msg.Extra = extra
	e.bytes = size(e.msg) + len(k.name)
	return e
}

// size estimates what a message takes in memory: its text, and what Go adds for
// each record and for the entry itself.
func size(m *dns.Msg) int {
	const perEntry, perRecord = 400, 100
	records := len(m.Answer) + len(m.Ns) + len(m.Extra)
	return perEntry + m.Len() + perRecord*records
}

// age returns for how long the entry has been there, in whole seconds, and whether
// it may be given out. A clock that went back makes it as new.
func (e *entry) age(now time.Time) (seconds uint32, live bool) {
	age := max(0, now.Sub(e.stored))
	return uint32(min(age/time.Second, math.MaxInt32)), age < e.life
}

// response returns the response at an age below the entry's life, which no TTL is
// shorter than, so that none gets down to 0. The caller owns it.
func (e *entry) response(age uint32) *dns.Msg {
	m := e.msg.Copy()
	eachTTL(m, func(ttl uint32) uint32 { return ttl - age })
	return m
}

func (e *entry) describe(now time.Time) Entry {
	age := now.Sub(e.stored)
	return Entry{
		Name:   e.name,
		QName:  e.key.name,
		Type:   e.key.qtype,
		Rcode:  e.msg.Rcode,
		Server: e.server,
		Age:    age,
		TTL:    e.life - age,
	}
}
