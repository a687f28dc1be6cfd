package dnsserver

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// DrainTCP closes the connections when what came in on them is answered, or ctx ends, and accepts
// no more: a new connection waits in the listening socket if another process has that too. UDP is
// served as before. Listen must not be called any more.
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

// lastAnswers is how long what is open may take after giveUp: it is answered from memory.
const lastAnswers = 500 * time.Millisecond

// Leave is Shutdown for a server whose sockets a successor takes over, after DrainTCP. It stops
// receiving over UDP: later queries wait in the sockets for the successor. It waits until the
// received queries are answered or ctx ends. If some are still open, it ends their contexts and
// calls giveUp, which must end what the Handler and Miss wait for, so that each gets a stale answer
// or SERVFAIL; nil: the contexts are enough. It returns the number of these queries. The sockets
// stay open for their responses: the process ends now.
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
		go giveUp() // closing a connection may take longer than the process should wait
	}
	s.cancel()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	_ = sockets.stop(ctx) // a Handler that ignores its context is not waited for
	return open
}
