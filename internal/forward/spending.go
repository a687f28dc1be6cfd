package forward

import (
	"net/netip"
	"sync/atomic"
)

// spending are the messages over TCP and TLS that came for a question, in octets. Those of a
// datagram are bounded by their size. It may be used concurrently; nil counts nothing.
type spending struct{ octets atomic.Int64 }

func (s *spending) add(octets int) {
	if s != nil {
		s.octets.Add(int64(octets))
	}
}

// charge tells what was spent on a client's question. Each who waits for the answer is charged in full: it would have been spent for it alone.
func (f *Forward) charge(client netip.Addr, s *spending) {
	if octets := s.octets.Load(); octets > 0 {
		f.spent(client, int(octets))
	}
}
