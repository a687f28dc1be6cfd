// Package dnstest provides a nameserver on loopback that answers from a few records, with
// configurable faults, and helpers to query nameservers and compare responses.
//
// It is separate from lab, which runs real programs in namespaces: no real nameserver answers with
// a wrong ID on request. The Server acts as a recursive nameserver that knows a small world
// completely: names without records do not exist. The demo uses it, too, so only functions with a
// TB parameter are limited to tests.
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

// ErrClosed is the error of Up after Close.
var ErrClosed = errors.New("nameserver is closed for good")

// TB is the part of testing.TB that this package uses. With it, the demo need not link package
// testing.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// A Server is a nameserver on one address, with UDP and TCP on the same port, or only TLS. Its
// methods may be called concurrently, even while it serves. The records and faults at the time of
// reading a query determine its response.
type Server struct {
	secure *tls.Config // nil without TLS
	pool   *x509.CertPool

	mu      sync.Mutex // guards the fields below
	addr    netip.AddrPort
	sockets *sockets // nil while down
	held    *holding // nil unless the port is held closed
	closed  bool
	records *records
	faults  order
	byName  map[string]*order
	counts  counts
	seen    []Query
}

// Start starts a nameserver on a free port of 127.0.0.1. records is in zone-file syntax (RFC 1035
// section 5): names without a final dot are absolute, the default TTL is 300, and common
// indentation is ignored. Without records every name is NXDOMAIN.
func Start(records string) (*Server, error) {
	return StartAt(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0), records)
}

// StartAt is Start with a chosen address, for example in a namespace. Port 0 picks a free port.
func StartAt(addr netip.AddrPort, records string) (*Server, error) {
	return start(&Server{addr: addr}, records)
}

// NewServer is Start for a test. It fails the test on an error and closes the server at the end of
// the test.
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
	if err := s.bindLocked(); err != nil { // no other goroutine has s yet
		return nil, fmt.Errorf("starting a nameserver: %w", err)
	}
	return s, nil
}

// Addr returns the address of the server, even while it is down.
func (s *Server) Addr() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// SetRecords replaces the records. Like regexp.MustCompile, it panics on invalid text, because the
// text is part of the test.
func (s *Server) SetRecords(text string) {
	parsed, err := parseRecords(text)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = parsed
}

// Close shuts the server down and waits for its goroutines. A second Close does nothing.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Down()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked()
}

// Down closes the sockets: UDP queries get an ICMP error, connection attempts a RST, and existing
// connections are closed. It drops responses that are still delayed, and waits until nothing is in
// progress. The server keeps the port reserved.
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

// Up binds the address again after Down; it does nothing if the server is up. Records, faults and
// counts stay. If another program has taken the port, Up waits up to 2 s for it.
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

// CloseConnections closes the existing connections, as a nameserver does with idle ones (RFC 7766
// section 6.2.3). It continues to listen.
func (s *Server) CloseConnections() {
	s.mu.Lock()
	open := s.sockets
	s.mu.Unlock()
	if open != nil {
		open.closeConns()
	}
}

// Vanish simulates a server that is unreachable: UDP queries and new TCP connections get no answer
// and no refusal. SetFaults ends the silence over UDP, the next Down and Up the rest. It panics if
// it cannot open the connections that it needs.
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

// RefuseTCP closes the TCP port and existing connections until the next Down and Up. UDP continues.
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
