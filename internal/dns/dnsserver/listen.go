package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
	"golang.org/x/sys/unix"
)

// Listener is the state of one address passed to Listen, over one transport.
type Listener struct {
	// Addr is the actual address. The port passed to Listen may have been 0.
	Addr  netip.AddrPort
	Proto Proto
	Err   string // why it does not listen, without the address; "" if it does
	InUse bool   // another program uses the address (EADDRINUSE); Err is set too
}

// Listen serves the given addresses over UDP and TCP, and stops serving all others. It binds new
// addresses before it closes old ones, and does not touch those that stay. It closes an old address
// once the queries received there are answered, and waits for that up to Config.Timeout. Port 0
// picks a free port, the same for both transports.
//
// The error joins one error for each socket that could not be bound. The other sockets are served
// nevertheless, and a later Listen retries what failed. Listen rejects an unspecified address
// (0.0.0.0, ::): a response must leave from the address that the query was sent to, so each address
// needs its own socket.
func (s *Server) Listen(addrs []netip.AddrPort) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	stopped, have := s.stopped, s.bindings
	s.mu.Unlock()
	if stopped {
		return ErrStopped
	}
	if s.terms == Gone {
		addrs = nil
	}

	var next []*binding
	var errs []error
	addrs = canonical(addrs)
	s.addresses = len(addrs)
	for _, want := range addrs {
		for _, b := range s.bindBoth(want, have) {
			next = append(next, b)
			if b.err != nil {
				errs = append(errs, fmt.Errorf("listening on %s %s: %w", b.proto, b.actual, b.err))
			}
		}
	}
	s.mu.Lock()
	s.bindings = next
	s.mu.Unlock()

	gone := slices.DeleteFunc(slices.Clone(have), func(b *binding) bool { return slices.Contains(next, b) })
	ctx, cancel := context.WithTimeout(s.queries, s.cfg.Timeout)
	defer cancel()
	s.settle(next, gone)
	s.dropAll(gone, next)
	_ = drainAll(ctx, gone) // a response that is later than this has no client any more
	return errors.Join(errs...)
}

// Listeners returns the listeners of the last Listen call, in its order, UDP before TCP.
func (s *Server) Listeners() []Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	listeners := make([]Listener, 0, len(s.bindings))
	for _, b := range s.bindings {
		l := Listener{Addr: b.actual, Proto: b.proto}
		if b.err != nil {
			l.Err, l.InUse = b.err.Error(), errors.Is(b.err, unix.EADDRINUSE)
		}
		listeners = append(listeners, l)
	}
	return listeners
}

// Shutdown stops receiving and waits until all received queries are answered. If ctx ends first,
// the contexts of the queries end, their responses are lost, and Shutdown returns an error. It does
// not wait for Handlers that ignore their context. A second Shutdown does nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	have := s.end()
	defer s.cancel()
	defer s.spare.release()
	if err := drainAll(ctx, have); err != nil {
		return fmt.Errorf("answering the last queries: %w", err)
	}
	return nil
}

// end marks the server as stopped and returns its bindings.
func (s *Server) end() (have []*binding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have = s.bindings
	s.stopped, s.bindings = true, nil
	return have
}

// canonical unmaps 4-in-6 addresses and drops duplicates.
func canonical(addrs []netip.AddrPort) []netip.AddrPort {
	var list []netip.AddrPort
	for _, a := range addrs {
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// New returns a server that does not listen yet.
func New(cfg Config) *Server {
	s := &Server{made: time.Now(), responder: responder{cfg: cfg.withDefaults(), cookies: newCookieSecret(), clock: time.Now}}
	s.queries, s.cancel = context.WithCancel(context.Background())
	s.SetMaxInFlight(s.cfg.MaxInFlight, s.cfg.Shared)
	s.SetAccess(s.cfg.Access)
	s.spending = NewLimiter(spendRate, 32, 128)
	s.shares, s.errors = NewShares(), NewLimiter(errorsPerSecond, errorBits4, errorBits6)
	s.largest.Store(int64(s.cfg.UDPSize))
	s.threads = rawsock.NewThreads(s.cfg.Threads)
	s.conns = newConnTable(s.cfg.MaxTCP, s.cfg.MaxTCPPerClient)
	s.buffers.New = func() any {
		b := make([]byte, bufferSize)
		return &b
	}
	return s
}
