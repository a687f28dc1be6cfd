package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tcpSocket is a listening TCP socket with the loops that serve it.
type tcpSocket struct {
	s        *Server
	fd       int
	local    netip.AddrPort
	loops    []*tcpLoop
	active   sync.WaitGroup // the loops and the goroutines that answer queries
	stopping atomic.Bool    // accept no connections and drain the open ones
	leaving  atomic.Bool    // close all connections now, even with pending answers
	deaf     atomic.Int32   // loops that no longer listen; the last one closes the socket
	count    atomic.Uint64  // number of connections
}

var _ socket = (*tcpSocket)(nil)

// newTCPSocket takes over the socket of l and serves it with the given number of loops.
func (s *Server) newTCPSocket(l *net.TCPListener, local netip.AddrPort, loops int) (*tcpSocket, error) {
	defer l.Close() // removes it from the netpoller
	fd, err := Dup(l)
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // inherited by the connections
	t := &tcpSocket{s: s, fd: fd, local: local}
	for range loops {
		var one *tcpLoop
		if one, err = newTCPLoop(t); err != nil {
			break
		}
		t.loops = append(t.loops, one)
	}
	if len(t.loops) == 0 {
		unix.Close(fd)
		return nil, err
	}
	s.spare.hold()
	for _, one := range t.loops {
		t.active.Go(one.run)
	}
	return t, nil
}

func (t *tcpSocket) drain(ctx context.Context) error {
	t.stop()
	err := wait(ctx, &t.active)
	if err != nil {
		t.leaving.Store(true)
		t.stop()
	}
	return err
}

// stop makes the loops end. It may be called again.
func (t *tcpSocket) stop() {
	t.stopping.Store(true)
	for _, one := range t.loops {
		one.wake()
	}
}

// spare is a file descriptor kept in reserve for when the process has no other. Without one, the
// server cannot even close a connection, and the client waits in the kernel's queue for an answer
// to a query that is never read.
type spare struct {
	mu   sync.Mutex // guards file; held while the descriptor is lent
	file *os.File   // nil if no descriptor was free to reopen it
}

// hold opens the descriptor unless it is open.
func (s *spare) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdLocked()
}

func (s *spare) holdLocked() {
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull) // retried when one is needed
	}
}

func (s *spare) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// closePending closes the connections that wait at a listening socket and returns their number.
func (s *spare) closePending(listening int) (n int) {
	const most = 100
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.holdLocked()
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
	for ; n < most; n++ {
		fd, _, err := unix.Accept4(listening, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return n
		}
		unix.Close(fd)
	}
	return n
}
