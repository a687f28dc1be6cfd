package dnsserver

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"sync/atomic"
	"time"
)

// Limiter is a rate limiter for each client: perSecond actions per second, with bursts of the same
// size. It implements the generic cell rate algorithm (ITU-T I.371): each cell holds the time at
// which all counted actions would have been done at that rate, so no cleanup is needed. Its methods
// may be called concurrently.
type Limiter struct {
	hasher
	interval int64 // nanoseconds
	began    time.Time
	rows     [2][rowSize]atomic.Int64
}

// NewLimiter returns a limiter that allows perSecond actions per client. Addresses that share their
// first bits4 (IPv4) or bits6 (IPv6) bits count as one client.
func NewLimiter(perSecond, bits4, bits6 int) *Limiter {
	return &Limiter{hasher: newHasher(bits4, bits6), interval: int64(time.Second) / int64(perSecond), began: time.Now()}
}

// Allow reports whether the client may act now. If so, it counts the action.
func (l *Limiter) Allow(a netip.Addr) bool {
	now := int64(time.Since(l.began))
	first, second := l.cells(a)
	one, other := &l.rows[0][first], &l.rows[1][second]
	due := min(one.Load(), other.Load())
	if due-now > int64(time.Second)-l.interval {
		return false
	}
	// Two concurrent calls may count as one: this limits what is sent and need not be exact.
	due = max(due, now) + l.interval
	raise(one, due)
	raise(other, due)
	return true
}

// allows is like Allow but does not count the action.
func (l *Limiter) allows(a netip.Addr) bool {
	first, second := l.cells(a)
	due := min(l.rows[0][first].Load(), l.rows[1][second].Load())
	return due-int64(time.Since(l.began)) <= int64(time.Second)-l.interval
}

// maxDebt is the longest time for which Charge excludes a client. A burst of costly queries, which
// another host may have sent in the client's name, must not exclude it for long.
const maxDebt = time.Minute

// Charge counts n actions, whether or not they are allowed, up to a debt of maxDebt.
func (l *Limiter) Charge(a netip.Addr, n int) {
	now := int64(time.Since(l.began))
	first, second := l.cells(a)
	one, other := &l.rows[0][first], &l.rows[1][second]
	due := max(min(one.Load(), other.Load()), now) + int64(n)*l.interval
	due = min(due, now+int64(time.Second+maxDebt))
	raise(one, due)
	raise(other, due)
}

// Over reports whether the client was charged more than the limit allows.
func (l *Limiter) Over(a netip.Addr) bool {
	first, second := l.cells(a)
	return min(l.rows[0][first].Load(), l.rows[1][second].Load())-int64(time.Since(l.began)) > int64(time.Second)
}

func raise(cell *atomic.Int64, to int64) {
	if cell.Load() < to {
		cell.Store(to)
	}
}

// rowSize is the number of cells in one row. Two rows of 64-bit cells take 64 KiB.
const (
	rowBits = 12
	rowSize = 1 << rowBits
)

// hasher maps each client to two cells, one in each of two rows, with a secret key, so that no
// client can choose an address that shares both cells with another. The count of a client is the
// smaller of the two, as in a count-min sketch (Cormode and Muthukrishnan, 2005). A client that
// shares one cell with a busy one is therefore not affected.
type hasher struct {
	bits4, bits6 int // prefix lengths that identify a client
	secret       [2]uint64
}

func newHasher(bits4, bits6 int) hasher {
	var random [16]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	return hasher{bits4, bits6, [2]uint64{binary.NativeEndian.Uint64(random[:]), binary.NativeEndian.Uint64(random[8:])}}
}

func (h *hasher) cells(a netip.Addr) (first, second int) {
	n := number6(a)
	keep := h.bits6
	if a.Is4() || a.Is4In6() {
		keep = h.bits4 + 96
	}
	if keep <= 64 {
		n.high, n.low = n.high&^(^uint64(0)>>keep), 0
	} else {
		n.low &^= ^uint64(0) >> (keep - 64)
	}
	high, low := bits.Mul64(n.high^h.secret[0], n.low^h.secret[1])
	high, low = bits.Mul64(high^low^h.secret[1], h.secret[0]|1)
	mixed := high ^ low
	return int(mixed % rowSize), int(mixed >> rowBits % rowSize)
}

// Shares counts resources per client. Its methods may be called concurrently.
type Shares struct {
	hasher
	rows [2][rowSize]atomic.Int32
}

// NewShares returns a Shares that counts per single address.
func NewShares() *Shares { return &Shares{hasher: newHasher(32, 128)} }

// Take adds one for the client if it has less than limit, and reports whether it did. The caller
// must return it with Give.
func (s *Shares) Take(a netip.Addr, limit int) bool {
	first, second := s.cells(a)
	one, other := &s.rows[0][first], &s.rows[1][second]
	if min(int(one.Add(1)), int(other.Add(1))) <= limit {
		return true
	}
	one.Add(-1)
	other.Add(-1)
	return false
}

// Count returns the client's count. It may be too high, because clients can share a cell.
func (s *Shares) Count(a netip.Addr) int {
	first, second := s.cells(a)
	return int(min(s.rows[0][first].Load(), s.rows[1][second].Load()))
}

// Give returns one.
func (s *Shares) Give(a netip.Addr) {
	first, second := s.cells(a)
	s.rows[0][first].Add(-1)
	s.rows[1][second].Add(-1)
}
