package dnsserver

import (
	"net/netip"
	"sync/atomic"
)

// Shares counts what each client has of something. Its methods may be called concurrently.
type Shares struct {
	hasher
	rows [2][rowSize]atomic.Int32
}

// NewShares counts for single addresses.
func NewShares() *Shares { return &Shares{hasher: newHasher(32, 128)} }

// Take takes one more for a client that has less than limit; who got one must give it back.
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

// Count is how many a client has, or more: clients may share a count.
func (s *Shares) Count(a netip.Addr) int {
	first, second := s.cells(a)
	return int(min(s.rows[0][first].Load(), s.rows[1][second].Load()))
}

// Give gives one back.
func (s *Shares) Give(a netip.Addr) {
	first, second := s.cells(a)
	s.rows[0][first].Add(-1)
	s.rows[1][second].Add(-1)
}
