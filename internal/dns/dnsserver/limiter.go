package dnsserver

import (
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

// Charge counts n actions, whether or not they are allowed.
func (l *Limiter) Charge(a netip.Addr, n int) {
	now := int64(time.Since(l.began))
	first, second := l.cells(a)
	one, other := &l.rows[0][first], &l.rows[1][second]
	due := max(min(one.Load(), other.Load()), now) + int64(n)*l.interval
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
