// Package zone answers for the cluster domain and its reverse zones from a Snapshot of the cluster.
//
// Unknown is not absent: before the first Snapshot the answer is SERVFAIL, not the NXDOMAIN that an
// upstream nameserver would give (law 7).
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

// Resolver answers for the cluster domains and their reverse zones from the newest Snapshot. It is
// safe for concurrent use.
type Resolver struct {
	cfg     *settings
	now     atomic.Pointer[moment] // nil before the first Snapshot
	reason  atomic.Pointer[error]  // why there is no Snapshot
	lookups sync.Pool
	seed    maphash.Seed // random, so clients cannot choose the slot of a ready response
}

// moment is a Snapshot and the responses that were composed from it.
type moment struct {
	snapshot *Snapshot
	ready    *readyTable // nil for a stale Snapshot, which is used only briefly
}

var _ dnsserver.Handler = (*Resolver)(nil)

// NewResolver returns a Resolver without a Snapshot.
func NewResolver(cfg Config) *Resolver {
	if cfg.Rotate == nil {
		cfg.Rotate = rand.IntN
	}
	r := &Resolver{cfg: newSettings(cfg), seed: maphash.MakeSeed()}
	r.lookups.New = func() any { return new(lookup) }
	return r
}

// Set makes the Resolver answer from s. nil removes the Snapshot.
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

// Unready sets the reason why there is no Snapshot, for the error of queries before the first one.
func (r *Resolver) Unready(reason error) { r.reason.Store(&reason) }

// Snapshot returns the newest Snapshot, or nil before the first.
func (r *Resolver) Snapshot() *Snapshot {
	if now := r.now.Load(); now != nil {
		return now.snapshot
	}
	return nil
}

// Apexes returns the zones that a Zone must pass to the Resolver: the cluster domains, and the
// reverse zones of the cluster's networks. If the networks of Services or Pods are unknown, these
// are all reverse zones.
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

// AppendResponse answers a query in wire format. It appends the response, at most limit bytes, to
// dst and returns the result. If ok is false, dst is unchanged and the caller uses ServeDNS: for
// names outside the cluster, for answers that continue elsewhere, before the first Snapshot, and
// for messages other than one question of class IN with or without an OPT record. It does not
// change the query. It allocates nothing if dst has room for limit bytes and one more record.
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
	if now.ready != nil && !l.isImport() { // mayBeReady does not cover names of imports
		now.ready.consider(l, maphash.Bytes(r.seed, l.key()), response[len(dst):])
	}
	return response, true
}

// begin prepares the lookup for a new question. A nil Snapshot means an empty cluster.
func (l *lookup) begin(cfg *settings, snapshot *Snapshot) {
	if snapshot == nil {
		snapshot = cfg.nothing
	}
	l.cfg, l.snapshot = cfg, snapshot
}

// readQuery parses a query into the question. It returns false for queries that AppendResponse does
// not handle.
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

// isMeta reports whether the type occurs only in questions (except for ANY) or belongs to the
// message itself (RFC 6895 section 3.1).
func isMeta(qtype uint16) bool {
	return qtype == dns.TypeOPT || qtype == 0 || qtype >= 128 && qtype != dns.TypeANY && qtype <= 255
}

// readOPT parses wire, the rest of a message, as an OPT record of version 0.
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

// unready returns the error for queries before the first Snapshot.
func (r *Resolver) unready() error {
	if reason := r.reason.Load(); reason != nil {
		return &dnsserver.ExtendedError{Code: errUnready.Code, Text: (*reason).Error(), Err: *reason}
	}
	return errUnready
}
