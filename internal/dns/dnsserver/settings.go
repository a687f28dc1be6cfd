package dnsserver

import (
	"net/netip"
)

// SetMaxInFlight replaces Config.MaxInFlight and Config.Shared. Queries in flight stay, even beyond
// the limits.
func (s *Server) SetMaxInFlight(n, shared int) {
	c := Config{MaxInFlight: n, Shared: shared}.withDefaults()
	s.places.Store(int64(c.MaxInFlight))
	s.shared.Store(int64(c.Shared))
}

// SetUDPSize replaces Config.UDPSize.
func (s *Server) SetUDPSize(octets int) {
	s.largest.Store(int64(Config{UDPSize: octets}.withDefaults().UDPSize))
}

// SetAccess replaces Config.Access. nil allows every client and disables the limit on error
// responses.
func (s *Server) SetAccess(a *Access) {
	if a != nil && a.Rate > 0 {
		limited := *a
		if old := s.access.Load(); old != nil && old.Rate == a.Rate {
			limited.limiter = old.limiter
		} else {
			limited.limiter = NewLimiter(a.Rate, 32, 128)
		}
		a = &limited
	}
	s.access.Store(a)
}

// SetWatch replaces the Watch. nil disables watching, which costs one load per batch. hits is the
// approximate maximum of fast-path answers per second that each receiver reports; 0 means all.
func (s *Server) SetWatch(w Watch, hits int) {
	if w == nil {
		s.watch.Store(nil)
		return
	}
	s.watch.Store(&watching{w, hits})
}

// Charge charges a client for an upstream message of that many bytes, and so for the time to parse
// it. A client that has used up its share gets only answers from the cache and the cluster zone for
// a while. This host has no limit.
func (s *Server) Charge(client netip.Addr, octets int) {
	if octets > spendFree {
		s.spending.Charge(client, octets-spendFree)
	}
}

// SetTerms sets the terms for the next Listen. They apply to the given addresses, and the other
// addresses are Alone. Without addresses they apply to all. Gone always applies to all.
func (s *Server) SetTerms(terms Terms, at ...netip.AddrPort) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.terms, s.termsAt = terms, at
}
