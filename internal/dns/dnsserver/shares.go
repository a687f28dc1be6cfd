package dnsserver

import (
	"net/netip"
	"sync/atomic"
)

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
