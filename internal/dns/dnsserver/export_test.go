package dnsserver

import (
	"net/netip"
	"sync"
	"time"
)

// OnWire and Parsed are the fast path and the slow path of a message that accept lets through, for
// benchmarks in higher packages. They return nil if the message does not take that path.
func (s *Server) OnWire(wire, buf []byte) []byte {
	q := wireQueries.Get().(*WireQuery)
	defer wireQueries.Put(q)
	x := exchangeOf(wire)
	response, _ := s.onWire(&x, q, buf[:0])
	return response
}

// wireQueries stands in for the WireQuery that each receiver has.
var wireQueries = sync.Pool{New: func() any { return new(WireQuery) }}

func (s *Server) Parsed(wire, buf []byte) []byte { return s.serve(exchangeOf(wire), buf) }

// BothWays passes a message through both paths at the same clock time. It returns nil if accept
// rejects the message.
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
