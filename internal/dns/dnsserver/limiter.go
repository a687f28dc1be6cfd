package dnsserver

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Limiter bounds how often something is done for each client: so many times a second, and as many at once. It keeps, for each
// cell, when all that was done would have been at that pace (the generic cell rate algorithm of ITU-T I.371), and so needs no
// clean-up. Its methods may be called concurrently.
type Limiter struct {
	hasher
	interval int64 // nanoseconds
	began    time.Time
	rows     [2][rowSize]atomic.Int64
}

// NewLimiter allows so many a second of each client; two whose addresses have the first bits4, or bits6, bits in common are one.
func NewLimiter(perSecond, bits4, bits6 int) *Limiter {
	return &Limiter{hasher: newHasher(bits4, bits6), interval: int64(time.Second) / int64(perSecond), began: time.Now()}
}

// Allow reports whether it may be done once more now, and counts it then.
func (l *Limiter) Allow(a netip.Addr) bool {
	now := int64(time.Since(l.began))
	first, second := l.cells(a)
	one, other := &l.rows[0][first], &l.rows[1][second]
	due := min(one.Load(), other.Load())
	if due-now > int64(time.Second)-l.interval {
		return false
	}
	// Two at once may count as one: a bound on what is sent, not an account.
	due = max(due, now) + l.interval
	raise(one, due)
	raise(other, due)
	return true
}

// allows is Allow without counting.
func (l *Limiter) allows(a netip.Addr) bool {
	first, second := l.cells(a)
	due := min(l.rows[0][first].Load(), l.rows[1][second].Load())
	return due-int64(time.Since(l.began)) <= int64(time.Second)-l.interval
}

// Charge counts n more, whether they are allowed or not.
func (l *Limiter) Charge(a netip.Addr, n int) {
	now := int64(time.Since(l.began))
	first, second := l.cells(a)
	one, other := &l.rows[0][first], &l.rows[1][second]
	due := max(min(one.Load(), other.Load()), now) + int64(n)*l.interval
	raise(one, due)
	raise(other, due)
}

// Over reports whether a client has been charged more than it is allowed.
func (l *Limiter) Over(a netip.Addr) bool {
	first, second := l.cells(a)
	return min(l.rows[0][first].Load(), l.rows[1][second].Load())-int64(time.Since(l.began)) > int64(time.Second)
}

func raise(cell *atomic.Int64, to int64) {
	if cell.Load() < to {
		cell.Store(to)
	}
}
