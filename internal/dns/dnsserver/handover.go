package dnsserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
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

// MaxSockets is the maximum number of sockets for one address and transport.
const MaxSockets = 64

// Sockets holds sockets that outlive the server: the service manager holds them too and passes them
// to the next process. The server calls its methods from one goroutine at a time.
type Sockets interface {
	// Take returns the socket with that index that is already bound to the address, or nil if there
	// is none. The server closes it. The indexes of an address are below MaxSockets.
	Take(proto Proto, at netip.AddrPort, index int) *os.File
	// Discard is called for a socket that was taken or kept and cannot be served. It must be closed
	// everywhere: while it is open, TCP cannot bind the address again, and it gets a part of the
	// queries over UDP.
	Discard(proto Proto, at netip.AddrPort, index int)
	// Keep is called for each socket that is served. fd is valid until Keep returns.
	Keep(proto Proto, at netip.AddrPort, index, fd int)
	// Drop is called when the server no longer serves an address.
	Drop(Proto, netip.AddrPort)
}

// Identify returns the transport and local address of a socket. It asks the kernel, because a
// file's name can be anything.
func Identify(file *os.File) (Proto, netip.AddrPort, error) {
	c, err := file.SyscallConn()
	if err != nil {
		return "", netip.AddrPort{}, fmt.Errorf("inspecting a socket: %w", err)
	}
	var kind, listens int
	var at unix.Sockaddr
	var failed error
	err = c.Control(func(fd uintptr) {
		if kind, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); failed != nil {
			return
		}
		if listens, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN); failed != nil {
			return
		}
		at, failed = unix.Getsockname(int(fd))
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return "", netip.AddrPort{}, fmt.Errorf("inspecting a socket: %w", err)
	}
	addr, ok := addrPortOf(at)
	switch {
	case ok && kind == unix.SOCK_DGRAM:
		return UDP, addr, nil
	case ok && kind == unix.SOCK_STREAM && listens == 1:
		return TCP, addr, nil
	}
	return "", netip.AddrPort{}, fmt.Errorf("%s is neither a UDP socket nor a listening TCP socket", file.Name())
}

func addrPortOf(at unix.Sockaddr) (netip.AddrPort, bool) {
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)), true
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(at.Addr)
		if link, err := net.InterfaceByIndex(int(at.ZoneId)); at.ZoneId != 0 && err == nil {
			addr = addr.WithZone(link.Name)
		}
		return netip.AddrPortFrom(addr.Unmap(), uint16(at.Port)), true
	}
	return netip.AddrPort{}, false
}

// noSockets implements Sockets for a server without inherited sockets.
type noSockets struct{}

func (noSockets) Take(Proto, netip.AddrPort, int) *os.File { return nil }
func (noSockets) Discard(Proto, netip.AddrPort, int)       {}
func (noSockets) Keep(Proto, netip.AddrPort, int, int)     {}
func (noSockets) Drop(Proto, netip.AddrPort)               {}
