package dnsserver

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// ErrStopped is the error of Listen after Shutdown.
var ErrStopped = errors.New("the server is stopped")

// Server receives queries on the addresses passed to Listen. Its methods may be called from any
// goroutine.
type Server struct {
	responder
	made    time.Time // with a monotonic reading, because the wall clock may jump
	pending sync.Pool // *PendingQuery
	conns   *connTable
	spare   spare
	threads rawsock.Threads

	changing  sync.Mutex       // held by Listen and Shutdown; guards the fields marked below
	terms     Terms            // guarded by changing
	termsAt   []netip.AddrPort // likewise; addresses that the terms apply to; empty means all
	addresses int              // likewise; number of addresses passed to Listen
	receivers []*receiver      // likewise

	mu       sync.Mutex // guards the fields below
	stopped  bool
	bindings []*binding
	tallies  []*tally  // of the current receivers
	gone     []Traffic // of receivers that have ended
}

// binding is one requested address and transport, with its socket unless binding failed.
type binding struct {
	want   netip.AddrPort // as passed to Listen
	proto  Proto
	actual netip.AddrPort // same as want, with the actual port if that is 0
	socket socket         // nil if err is set
	err    error
}

// socket is a bound UDP or TCP socket that is being served.
type socket interface {
	// drain stops receiving, waits until all received queries are answered or ctx ends, and closes
	// the socket.
	drain(ctx context.Context) error
	// appendQueues appends the socket's queues, which have no name yet and whose waits is not set.
	appendQueues(queues []queue) []queue
}

// wait waits for a group until ctx ends. If ctx ends first, its goroutine lives until the group is
// done.
func wait(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
