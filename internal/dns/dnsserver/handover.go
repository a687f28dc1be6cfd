package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// DrainTCP closes the connections when what came in on them is answered, or ctx ends, and accepts no more: who connects
// waits in the listening socket, where somebody else has that too. UDP is served as before. Listen must not be called
// any more.
func (s *Server) DrainTCP(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	var tcp []*binding
	s.stopped = true
	s.bindings = slices.DeleteFunc(slices.Clone(s.bindings), func(b *binding) bool {
		if b.proto == TCP {
			tcp = append(tcp, b)
		}
		return b.proto == TCP
	})
	s.mu.Unlock()
	if err := drainAll(ctx, tcp); err != nil {
		return fmt.Errorf("answering the last queries over TCP: %w", err)
	}
	return nil
}

// Leave is Shutdown for a server whose sockets and Queries a successor takes over: what has not been received when it
// begins, and what is not answered when ctx ends, is the successor's. It returns how many queries those are that were
// received. The sockets stay open, for the responses that are being sent: the process ends now.
func (s *Server) Leave(ctx context.Context) int {
	s.changing.Lock()
	defer s.changing.Unlock()
	have := s.end()
	var all sync.WaitGroup
	for _, b := range have {
		if u, ok := b.socket.(udpSockets); ok {
			all.Go(func() { _ = u.stop(ctx) }) // what it has not answered by then is counted below
		}
	}
	all.Wait()
	s.left.Store(true)
	s.cfg.Queries.Leave()
	left := s.counters.inFlight.Load() // before they end with their context
	s.cancel()
	return int(left)
}

// Resume answers the queries that the predecessor has left in Queries, from the sockets where they came in. It returns
// how many it takes up; what came in where nothing is listened at yet waits for the next Resume after a Listen, for as long
// as its client waits.
func (s *Server) Resume() int {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	sockets := map[netip.AddrPort]*udpSocket{}
	for _, b := range s.bindings {
		if all, ok := b.socket.(udpSockets); ok {
			sockets[b.actual] = all[0]
		}
	}
	s.mu.Unlock()
	taken := 0
	isBound := func(local netip.AddrPort) bool { return sockets[local] != nil }
	for _, q := range s.cfg.Queries.Left(isBound) {
		u := sockets[q.Local]
		v, _ := accept(q.Wire)
		client := q.Client.Addr()
		if v != parse || q.Client.Port() == 0 || s.access.Load().denies(q.Local, client) != allowed || s.counters.inFlight.Load() >= s.places.Load() {
			q.Done()
			continue
		}
		s.enterBeyond(client) // what came before is not shed by a share of today
		u.later(exchange{wire: q.Wire, client: q.Client, local: q.Local, proto: UDP}, WireQuery{}, q.Held, newMark(q.Wire), time.Now())
		taken++
	}
	return taken
}
