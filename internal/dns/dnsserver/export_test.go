package dnsserver

import (
	"net/netip"
	"sync"
	"time"
)

// OnWire and Parsed are the two ways of a message that accept lets pass, for benchmarks with the packages above; nil: it
// does not go this way.
func (s *Server) OnWire(wire, buf []byte) []byte {
	q := wireQueries.Get().(*WireQuery)
	defer wireQueries.Put(q)
	x := exchangeOf(wire)
	response, _ := s.onWire(&x, q, buf[:0])
	return response
}

// wireQueries has what a receiver has of its own.
var wireQueries = sync.Pool{New: func() any { return new(WireQuery) }}

func (s *Server) Parsed(wire, buf []byte) []byte { return s.serve(exchangeOf(wire), buf) }

// BothWays is a message on the two ways at one time, where accept lets it pass.
func (s *Server) BothWays(wire []byte, proto Proto) (onWire, parsed []byte) {
	if v, _ := accept(wire); v != parse {
		return nil, nil
	}
	now := time.Now()
	s.clock = func() time.Time { return now }
	x := exchangeOf(wire)
	x.proto = proto
	var q WireQuery
	onWire, _ = s.onWire(&x, &q, nil)
	return onWire, s.serve(x, nil)
}

func exchangeOf(wire []byte) exchange {
	client, local := netip.AddrFrom4([4]byte{10, 128, 0, 7}), netip.AddrFrom4([4]byte{192, 0, 2, 10})
	return exchange{wire: wire, client: netip.AddrPortFrom(client, 4242), local: netip.AddrPortFrom(local, 53), proto: UDP}
}
