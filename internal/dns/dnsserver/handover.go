package dnsserver

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// DrainTCP stops accepting connections. It closes each open connection once its queries are
// answered, or when ctx ends. If another process has the listening socket too, new connections wait
// there. UDP is served as before. Listen must not be called afterwards.
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

// lastAnswers is the time that pending queries have after giveUp to be answered from the cache.
const lastAnswers = 500 * time.Millisecond

// Leave is Shutdown for a server whose sockets a successor takes over. It is called after DrainTCP.
// It stops receiving over UDP, so later queries wait in the sockets for the successor. It waits
// until the received queries are answered or ctx ends. If some are still open then, it cancels
// their contexts and calls giveUp, which must unblock the Handler and Miss, so that each query gets
// a stale answer or SERVFAIL. If giveUp is nil, canceling the contexts must be enough. Leave
// returns the number of these queries. The sockets stay open for their responses, because the
// process exits next.
func (s *Server) Leave(ctx context.Context, giveUp func()) (open int) {
	s.changing.Lock()
	defer s.changing.Unlock()
	defer s.cancel()
	sockets := udpOf(s.end())
	if sockets.stop(ctx) == nil {
		return 0
	}
	open = int(s.counters.inFlight.Load())
	if giveUp != nil {
		go giveUp() // closing a connection may take longer than the process can wait
	}
	s.cancel()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	_ = sockets.stop(ctx) // do not wait for a Handler that ignores its context
	return open
}
