// Package dnstest is a nameserver on loopback that answers from a few records, with faults to order, and what is
// needed to ask one and to compare its responses.
//
// It is apart from lab, which sets up real programs in namespaces: here the peer is played, because no real nameserver
// answers with a wrong ID when it is told to. It plays a recursive nameserver that knows a small world whole: what is
// not in its records does not exist. The demo uses it too, so only what takes a TB is for tests alone.
package dnstest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// ErrClosed is what Up returns after Close.
var ErrClosed = errors.New("nameserver is closed for good")

// TB is the part of testing.TB that is used here: the demo shall not link package testing.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// A Server is a nameserver on one address, UDP and TCP on the same port (or TLS alone). Its methods may be called
// concurrently, and while it serves: a query is answered by the records and faults that hold when it is read.
type Server struct {
	secure *tls.Config // nil: plain
	pool   *x509.CertPool

	mu      sync.Mutex // guards what follows
	addr    netip.AddrPort
	sockets *sockets // nil while it is down
	held    *holding // nil while nothing is refused
	closed  bool
	records *records
	faults  order
	byName  map[string]*order
	counts  counts
	seen    []Query
}

// Start starts a nameserver on a free port of 127.0.0.1 that answers from records: zone-file syntax (RFC 1035 section
// 5), names without final dot are absolute, a missing TTL is 300, indentation that all lines share does not count.
// Without records every name is NXDOMAIN.
func Start(records string) (*Server, error) {
	return StartAt(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0), records)
}

// StartAt is Start on an address of the caller's choice, as for a namespace. Port 0 is a free one.
func StartAt(addr netip.AddrPort, records string) (*Server, error) {
	return start(&Server{addr: addr}, records)
}

// NewServer is Start for a test, which fails when that does. The server is closed when the test ends.
func NewServer(t TB, records string) *Server {
	t.Helper()
	s, err := Start(records)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func start(s *Server, text string) (*Server, error) {
	parsed, err := parseRecords(text)
	if err != nil {
		return nil, fmt.Errorf("starting a nameserver: %w", err)
	}
	s.records = parsed
	if err := s.bindLocked(); err != nil { // nobody else has s yet
		return nil, fmt.Errorf("starting a nameserver: %w", err)
	}
	return s, nil
}

// Addr returns the address that it listens on, also while it is down.
func (s *Server) Addr() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// SetRecords replaces the records. It panics on a text that Start would refuse, as regexp.MustCompile does: the text
// is part of the test.
func (s *Server) SetRecords(text string) {
	parsed, err := parseRecords(text)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = parsed
}

// Close ends the server and waits for everything that it started. A second Close does nothing.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Down()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
}

// Down closes the sockets: a query over UDP is refused by ICMP, a connection by RST, and connections that stand are
// closed. Responses that are still delayed are not sent. It waits until nothing is under way. The port stays ours.
func (s *Server) Down() {
	s.mu.Lock()
	open := s.sockets
	s.sockets = nil
	s.mu.Unlock()
	if open == nil {
		return
	}
	open.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.sockets == nil {
		s.releaseLocked()
		s.held = hold(s.addr, s.secure == nil)
	}
}

func (s *Server) releaseLocked() {
	s.held.release()
	s.held = nil
}

// Up binds the address again after Down; when it is up it does nothing. Records, faults and counts are as they were.
// Should somebody else have got the port in between, Up waits 2 s for it.
func (s *Server) Up() error {
	const patience, pause = 2 * time.Second, 5 * time.Millisecond
	deadline := time.Now().Add(patience)
	for {
		err := s.tryUp()
		if err == nil || errors.Is(err, ErrClosed) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}

func (s *Server) tryUp() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.sockets != nil:
		return nil
	}
	s.releaseLocked()
	return s.bindLocked()
}

// CloseConnections closes the connections that stand, as a nameserver does with idle ones (RFC 7766 section 6.2.3).
// It goes on listening.
func (s *Server) CloseConnections() {
	s.mu.Lock()
	open := s.sockets
	s.mu.Unlock()
	if open != nil {
		open.closeConns()
	}
}

// Vanish makes the server one that a network has lost: queries over UDP meet silence, and a new connection over TCP neither an answer
// nor a refusal. SetFaults ends the silence, the next Down and Up the rest. It panics if the connections cannot be had.
func (s *Server) Vanish() {
	s.RefuseTCP()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil && s.held.tcp != nil {
		if err := s.held.swallow(s.addr); err != nil {
			panic(fmt.Errorf("vanishing: %w", err))
		}
	}
	s.faults = newOrder(Faults{Drop: true})
}

// RefuseTCP closes the port for TCP, and the connections that stand, until the next Down and Up; UDP goes on.
func (s *Server) RefuseTCP() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sockets == nil || s.held != nil {
		return
	}
	s.sockets.listener.Close()
	s.sockets.closeConns()
	s.held = hold(s.addr, false)
}
