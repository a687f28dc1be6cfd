// Package zone answers for the cluster domain and its reverse zones from a Snapshot of the cluster.
//
// Unknown is not absent: before the first Snapshot the answer is SERVFAIL, and not the NXDOMAIN that an upstream nameserver would
// give (law 7).
package zone

import (
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// Resolver answers for the cluster domains and their reverse zones from the newest Snapshot. It is safe for concurrent
// use.
type Resolver struct {
	cfg     *settings
	now     atomic.Pointer[moment] // nil: there is no Snapshot
	reason  atomic.Pointer[error]  // why there is none
	lookups sync.Pool
	seed    maphash.Seed // random: who asks cannot choose the place of a ready response
}

// moment is a Snapshot with what was answered from it: another Snapshot knows none of its ready responses.
type moment struct {
	snapshot *Snapshot
	ready    *readyTable // nil: of a stale Snapshot, which is not answered from for long
}

var _ dnsserver.Handler = (*Resolver)(nil)

// NewResolver returns a Resolver that has no Snapshot yet.
func NewResolver(cfg Config) *Resolver {
	if cfg.Rotate == nil {
		cfg.Rotate = rand.IntN
	}
	r := &Resolver{cfg: newSettings(cfg), seed: maphash.MakeSeed()}
	r.lookups.New = func() any { return new(lookup) }
	return r
}

// Set has the questions from now on answered from s.
func (r *Resolver) Set(s *Snapshot) {
	if s == nil {
		r.now.Store(nil)
		return
	}
	now := &moment{snapshot: s}
	if !s.stale {
		now.ready = newReadyTable(s.counts)
	}
	r.now.Store(now)
}

// Unready says why there is no Snapshot, for who asks before the first.
func (r *Resolver) Unready(reason error) { r.reason.Store(&reason) }

// Snapshot returns the newest; nil before the first.
func (r *Resolver) Snapshot() *Snapshot {
	if now := r.now.Load(); now != nil {
		return now.snapshot
	}
	return nil
}

// Apexes are the zones that a Zone must hand to the Resolver: the cluster domains, and the reverse zones of the cluster's
// networks, all of them when the networks of Services or those of pods are not known.
func (r *Resolver) Apexes() []dnsname.Name {
	apexes := slices.Clone(r.cfg.Domains)
	for _, cidr := range r.cfg.cidrs {
		apexes = append(apexes, dnsname.ReverseZones(cidr)...)
	}
	if r.cfg.clusterSet != nil {
		apexes = append(apexes, r.cfg.ClusterSet)
	}
	if r.cfg.anyService || r.cfg.anyPod {
		apexes = append(apexes, dnsname.MustParse("in-addr.arpa"), dnsname.MustParse("ip6.arpa"))
	}
	return apexes
}

// AppendResponse answers a query on the wire: it appends the response to dst, at most limit octets of it, and returns it.
// ok is false, and dst as it was, when that must be left to ServeDNS: for names that are not the cluster's, for answers
// that go on elsewhere, before the first Snapshot, and for messages that are anything but one question of class IN with
// or without an OPT record. The query is not changed. Nothing is allocated when dst has room for limit octets and another
// record.
func (r *Resolver) AppendResponse(dst, query []byte, limit int) (response []byte, ok bool) {
	now := r.now.Load()
	if now == nil || len(query) < headerSize || limit < dns.MinMsgSize {
		return dst, false
	}
	l := r.lookups.Get().(*lookup)
	defer r.lookups.Put(l)
	q, ok := l.readQuery(query)
	if !ok {
		return dst, false
	}
	l.begin(r.cfg, now.snapshot)
	l.resolve()
	if l.verdict != answered {
		return dst, false
	}
	q.limit = limit
	response = l.appendResponse(dst, q)
	if now.ready != nil && !l.isImport() { // mayBeReady knows no names of imports
		now.ready.consider(l, maphash.Bytes(r.seed, l.key()), response[len(dst):])
	}
	return response, true
}

// begin has the lookup know nothing of the question before. Without a Snapshot there is nothing in the cluster.
func (l *lookup) begin(cfg *settings, snapshot *Snapshot) {
	if snapshot == nil {
		snapshot = cfg.nothing
	}
	l.cfg, l.snapshot = cfg, snapshot
}

// readQuery reads a query into the question. It returns false for what AppendResponse leaves to others.
func (l *lookup) readQuery(query []byte) (q asking, ok bool) {
	q.id, q.flags = binary.BigEndian.Uint16(query), binary.BigEndian.Uint16(query[2:])
	extra := binary.BigEndian.Uint16(query[arCount:])
	if q.flags&(bitQR|maskOpcode|bitTC) != 0 || binary.BigEndian.Uint64(query[4:])>>16 != 1<<32 || extra > 1 {
		return q, false
	}
	end := l.read(query[headerSize:])
	rest := query[headerSize+end:]
	if end == 0 || len(rest) < 4 || binary.BigEndian.Uint16(rest[2:]) != dns.ClassINET {
		return q, false
	}
	l.qtype = binary.BigEndian.Uint16(rest)
	copy(l.lower[end:], rest[:typeAndClass])
	switch rest = rest[4:]; {
	case isMeta(l.qtype):
		return q, false
	case extra == 0:
		return q, len(rest) == 0
	}
	q.edns, q.do, ok = readOPT(rest)
	return q, ok
}

// isMeta says whether the type is one of questions alone, but for ANY, or of the message itself: RFC 6895 section 3.1.
func isMeta(qtype uint16) bool {
	return qtype == dns.TypeOPT || qtype == 0 || qtype >= 128 && qtype != dns.TypeANY && qtype <= 255
}

// readOPT reads an OPT record of version 0 that is the rest of a message.
func readOPT(wire []byte) (edns, do, ok bool) {
	if len(wire) < optSize || wire[0] != 0 || binary.BigEndian.Uint16(wire[1:]) != dns.TypeOPT || wire[6] != 0 ||
		len(wire) != optSize+int(binary.BigEndian.Uint16(wire[9:])) {
		return false, false, false
	}
	return true, binary.BigEndian.Uint16(wire[7:])&bitDO != 0, true
}

var errUnready = &dnsserver.ExtendedError{
	Code: dns.ExtendedErrorCodeNotReady,
	Text: "the Kubernetes API has not been read yet",
}

// unready is the error while there is no Snapshot.
func (r *Resolver) unready() error {
	if reason := r.reason.Load(); reason != nil {
		return &dnsserver.ExtendedError{Code: errUnready.Code, Text: (*reason).Error(), Err: *reason}
	}
	return errUnready
}
