package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/sys/stats"
)

// Traffic counts queries and responses of one transport and address family since the server was
// created. A query is counted when it is done: answered, or deliberately left unanswered. Messages
// that are not queries (Stats.Dropped) are not counted.
type Traffic struct {
	Proto Proto
	IPv6  bool // family of the local address

	Types   [len(TypeNames)]uint64  // queries, indexed as TypeNames
	DO      uint64                  // IN queries with the DO bit, unless refused or dropped unread
	Rcodes  [len(RcodeNames)]uint64 // responses, indexed as RcodeNames
	Queries stats.Sizes
	// Responses counts responses as they were sent, including failed sends (Stats.WriteErrors).
	Responses stats.Sizes
	// Durations are the times from receiving a query to sending its response. For queries answered
	// at once they are samples: a receiver reads the clock once per eight responses or more, and
	// all of these count as those that are sent in that system call.
	Durations stats.Durations
}

// TypeNames lists the query types that are counted separately, and "other" for all the rest, so
// that clients cannot create new ones.
var TypeNames = [...]string{"other", "A", "AAAA", "SRV", "PTR", "TXT", "NS", "SOA", "MX", "CNAME", "HTTPS", "SVCB"}

// RcodeNames lists the response codes that are counted separately, by number (RFC 6895 section
// 2.3). The last two are "other" and BADVERS, the only extended code that the server itself sends.
var RcodeNames = [...]string{
	"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE", "other", "BADVERS",
}

const (
	rcodeOther   = uint8(len(RcodeNames) - 2)
	rcodeBadVers = uint8(len(RcodeNames) - 1)
)

// kinds maps query types to their index in TypeNames. The highest of them ends the table.
var kinds = [dns.TypeHTTPS + 1]uint8{
	dns.TypeA: 1, dns.TypeAAAA: 2, dns.TypeSRV: 3, dns.TypePTR: 4, dns.TypeTXT: 5, dns.TypeNS: 6, dns.TypeSOA: 7, dns.TypeMX: 8,
	dns.TypeCNAME: 9, dns.TypeHTTPS: 10, dns.TypeSVCB: 11,
}

// withDO is the bit in a sample's kind that stands for the DO bit. A separate field costs more than
// all of the counting.
const withDO = 1 << 7

// sample holds the counts for one query. size is the size of the query in bytes, and response is
// the size of the response; 0 means none.
type sample struct {
	kind, rcode    uint8
	size, response uint16
}

// newSample returns the sample of a query whose question has not been located yet.
func newSample(wire []byte) sample {
	m := sample{size: uint16(len(wire))}
	if len(wire) < headerSize {
		return m
	}
	if end := questionEnd(wire); end > 0 {
		m.kind = kindOf(count(wire, end-4))
	}
	return m
}

func kindOf(qtype uint16) uint8 {
	if int(qtype) < len(kinds) {
		return kinds[qtype]
	}
	return 0
}

// sample is newSample for a query that has been read already.
func (q *WireQuery) sample() sample {
	m := sample{kind: kindOf(q.Type()), size: uint16(len(q.Msg))}
	if q.DO {
		m.kind |= withDO
	}
	return m
}

// with returns the sample with its response added. An empty response counts as none.
func (m sample) with(response []byte) sample {
	m.response = uint16(len(response))
	if len(response) < headerSize {
		return m
	}
	m.rcode = min(response[3]&0xf, rcodeOther)
	// No answer or authority records; BADVERS looks like that too.
	if m.rcode == 0 && binary.BigEndian.Uint32(response[6:]) == 0 {
		if at := findOPT(response); at > 0 && response[at-6] != 0 {
			m.rcode = rcodeBadVers
		}
	}
	return m
}

// traffic holds the counters of one receiver, or of the goroutines that answer after it, so that
// they rarely contend for the lock.
type traffic struct {
	mu      sync.Mutex // guards the fields below
	count   Traffic
	untimed uint64        // responses not in Durations yet
	last    time.Duration // last measured duration; 0 if there is none
}

// timeEvery is the number of responses sent at once per clock reading. Reading the clock takes as
// long as copying a response.
const timeEvery = 8

func newTraffic(proto Proto, local netip.Addr) traffic {
	return traffic{count: Traffic{Proto: proto, IPv6: local.Is6() && !local.Is4In6()}}
}

// add counts a query that was done after the given time.
func (t *traffic) add(after time.Duration, m sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Durations.Add(after, t.addLocked(m))
}

// sent counts queries that were received together and whose responses have just been sent together.
// It costs as much as two atomic additions, however many there are.
func (t *traffic) sent(received time.Time, samples []sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.untimed += t.addLocked(samples...)
	if t.untimed >= timeEvery || t.last == 0 {
		t.last = max(time.Since(received), 1)
		t.timeLocked()
	}
}

// timeLocked counts the untimed responses with the last measured duration.
func (t *traffic) timeLocked() {
	t.count.Durations.Add(t.last, t.untimed)
	t.untimed = 0
}

// addLocked counts everything except durations, and returns the number of responses.
func (t *traffic) addLocked(samples ...sample) (answered uint64) {
	for _, m := range samples {
		t.count.Types[m.kind&^withDO]++
		t.count.DO += uint64(m.kind / withDO)
		t.count.Queries.Add(int(m.size))
		if m.response > 0 {
			answered++
			t.count.Rcodes[m.rcode]++
			t.count.Responses.Add(int(m.response))
		}
	}
	return answered
}

// read returns a copy of the counters.
func (t *traffic) read() Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timeLocked()
	return t.count
}

// merge adds one to the entry of its transport and family in all, which it appends if needed.
func merge(all []Traffic, one Traffic) []Traffic {
	for i := range all {
		if t := &all[i]; t.Proto == one.Proto && t.IPv6 == one.IPv6 {
			for i, n := range one.Types {
				t.Types[i] += n
			}
			for i, n := range one.Rcodes {
				t.Rcodes[i] += n
			}
			t.DO += one.DO
			t.Queries.Merge(&one.Queries)
			t.Responses.Merge(&one.Responses)
			t.Durations.Merge(&one.Durations)
			return all
		}
	}
	return append(all, one)
}
