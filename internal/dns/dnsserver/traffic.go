package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/sys/percpu"
)

// Traffic is what was asked and answered over one transport and address family since the server was made. A query counts when it
// is done with: answered, or left without an answer on purpose. What is no query, Stats.Dropped, is not in it.
type Traffic struct {
	Proto Proto
	IPv6  bool // of the address that was asked

	Types   [len(TypeNames)]uint64  // queries, by the place of their type in TypeNames
	DO      uint64                  // queries of class IN with the DO bit, but for those that were refused unread, or left by the server before
	Rcodes  [len(RcodeNames)]uint64 // responses, likewise
	Queries percpu.Sizes
	// Responses are as they were sent, of which some could not be: Stats.WriteErrors.
	Responses percpu.Sizes
	// Durations are from when a query was received until its response was sent. Of what is answered at once they are a sample: the
	// clock is read for eight responses or more, of one receiver, all of which count as those that leave in one system call then.
	Durations percpu.Durations
}

// TypeNames are the types of queries that are told apart, and "other" for all else: a client must not be able to make up new ones.
var TypeNames = [...]string{"other", "A", "AAAA", "SRV", "PTR", "TXT", "NS", "SOA", "MX", "CNAME", "HTTPS", "SVCB"}

// RcodeNames are the response codes that are told apart, by number (RFC 6895 section 2.3), but for the last two: "other" and
// BADVERS, which alone of the extended ones is the server's own.
var RcodeNames = [...]string{
	"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE", "other", "BADVERS",
}

const (
	rcodeOther   = uint8(len(RcodeNames) - 2)
	rcodeBadVers = uint8(len(RcodeNames) - 1)
)

// kinds are the places of types in TypeNames. The table ends behind the highest of them.
var kinds = [dns.TypeHTTPS + 1]uint8{
	dns.TypeA: 1, dns.TypeAAAA: 2, dns.TypeSRV: 3, dns.TypePTR: 4, dns.TypeTXT: 5, dns.TypeNS: 6, dns.TypeSOA: 7, dns.TypeMX: 8,
	dns.TypeCNAME: 9, dns.TypeHTTPS: 10, dns.TypeSVCB: 11,
}

// withDO is the bit of a sample's kind for a query with the DO bit: a field of its own costs more than all of the counting.
const withDO = 1 << 7

// sample is what is to be counted of one query. size, in octets, is the query's, and response its response's; 0: there is none.
type sample struct {
	kind, rcode    uint8
	size, response uint16
}

// newSample looks at a query of which it was not seen yet where its question ends.
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

// sample is newSample's for a query that was looked at.
func (q *WireQuery) sample() sample {
	m := sample{kind: kindOf(q.Type()), size: uint16(len(q.Msg))}
	if q.DO {
		m.kind |= withDO
	}
	return m
}

// with is the sample of a query that has this response; none, where it is empty.
func (m sample) with(response []byte) sample {
	m.response = uint16(len(response))
	if len(response) < headerSize {
		return m
	}
	m.rcode = min(response[3]&0xf, rcodeOther)
	if m.rcode == 0 && binary.BigEndian.Uint32(response[6:]) == 0 { // no answer, no authority: BADVERS looks like that too
		if at := findOPT(response); at > 0 && response[at-6] != 0 {
			m.rcode = rcodeBadVers
		}
	}
	return m
}

// traffic counts what belongs to one receiver, or to those who answer after it: so that they seldom wait for each other.
type traffic struct {
	mu      sync.Mutex // guards what follows
	count   Traffic
	untimed uint64        // responses that are not in Durations yet
	last    time.Duration // of what is there; 0: nothing is
}

// timeEvery is for how many responses that are sent at once the clock is read: to ask for the time takes as long as to copy a
// response.
const timeEvery = 8

func newTraffic(proto Proto, local netip.Addr) traffic {
	return traffic{count: Traffic{Proto: proto, IPv6: local.Is6() && !local.Is4In6()}}
}

// add counts a query that was done with after that time.
func (t *traffic) add(after time.Duration, m sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Durations.Add(after, t.addLocked(m))
}

// sent counts queries that were received together, and whose responses have left together by now. It costs what two atomic
// additions do, however many they are.
func (t *traffic) sent(received time.Time, samples []sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.untimed += t.addLocked(samples...)
	if t.untimed >= timeEvery || t.last == 0 {
		t.last = max(time.Since(received), 1)
		t.timeLocked()
	}
}

// timeLocked has what is untimed count as what was timed last.
func (t *traffic) timeLocked() {
	t.count.Durations.Add(t.last, t.untimed)
	t.untimed = 0
}

// addLocked counts all but durations, and returns how many responses there are.
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

// read is what was counted.
func (t *traffic) read() Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timeLocked()
	return t.count
}

// merge adds what another one has counted to where its transport and family are among all, which it may have to be added to.
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
