package dnsserver

import (
	"net/netip"
)

// SetMaxInFlight replaces Config.MaxInFlight and Config.Shared. What is being handled stays, also beyond the bounds.
func (s *Server) SetMaxInFlight(n, shared int) {
	c := Config{MaxInFlight: n, Shared: shared}.withDefaults()
	s.places.Store(int64(c.MaxInFlight))
	s.shared.Store(int64(c.Shared))
}

// SetUDPSize replaces Config.UDPSize.
func (s *Server) SetUDPSize(octets int) {
	s.largest.Store(int64(Config{UDPSize: octets}.withDefaults().UDPSize))
}

// SetAccess replaces who may ask; nil: everyone may, and is always told why not.
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

// SetWatch replaces who is told of the queries; nil: nobody is, which costs a query nothing, and a batch of them one load. hits bounds how many
// of the queries that Wire answers each receiver tells of in a second, about; 0: all.
func (s *Server) SetWatch(w Watch, hits int) {
	if w == nil {
		s.watch.Store(nil)
		return
	}
	s.watch.Store(&watching{w, hits})
}

// Charge has a client pay for a message of so many octets that an upstream nameserver has sent for it, and so for the time that reading it
// takes. Who has spent its share is answered from memory, and by the cluster's zone, alone for a while; this host never has.
func (s *Server) Charge(client netip.Addr, octets int) {
	if octets > spendFree {
		s.spending.Charge(client, octets-spendFree)
	}
}

// SetTerms is for the next Listen. The terms hold at the given addresses, and the others are Alone; no address: they hold
// at all of them. Gone holds at all of them in any case.
func (s *Server) SetTerms(terms Terms, at ...netip.AddrPort) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.terms, s.termsAt = terms, at
}
