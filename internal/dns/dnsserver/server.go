package dnsserver

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// ErrStopped is what Listen returns after Shutdown.
var ErrStopped = errors.New("the server is stopped")

// Server receives queries on the addresses given to Listen. Its methods may be
// called from any goroutine.
type Server struct {
	responder
	made    time.Time // with its monotonic reading: the wall clock may jump
	pending sync.Pool // *PendingQuery
	conns   *connTable
	spare   spare
	own     ownClients
	threads rawsock.Threads

	changing  sync.Mutex       // held by Listen and Shutdown: one change at a time
	terms     Terms            // guarded by it
	termsAt   []netip.AddrPort // likewise: where terms hold; empty: everywhere
	addresses int              // that Listen was given; likewise
	receivers []*receiver      // likewise

	mu       sync.Mutex // guards what follows
	stopped  bool
	bindings []*binding
	tallies  []*tally  // of the receivers
	gone     []Traffic // of those that have ended
}

// binding is one address and transport that is wanted, with its socket unless
// binding it failed.
type binding struct {
	want   netip.AddrPort // as given to Listen
	proto  Proto
	actual netip.AddrPort // the port of want may be 0
	socket socket         // nil: err says why
	err    error
}

// socket is a bound UDP or TCP socket that is being served.
type socket interface {
	// drain stops receiving, waits until what was received is answered or ctx
	// ends, and closes.
	drain(ctx context.Context) error
	// taken is Listener.Taken.
	taken() uint64
}

// wait waits for a group until ctx ends. The goroutine it starts then lives
// until the group is done.
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
