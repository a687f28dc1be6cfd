package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// tcpSocket is a listening TCP socket and the connections that came in on it.
type tcpSocket struct {
	s        *Server
	listener net.Listener
	local    netip.AddrPort
	accepts  sync.WaitGroup // the accepting goroutine
	active   sync.WaitGroup // every connection
	stop     chan struct{}  // closed when draining
	count    atomic.Uint64  // of connections

	mu   sync.Mutex // guards what follows
	open map[*tcpConn]struct{}
}

var _ socket = (*tcpSocket)(nil)

func (s *Server) serveTCP(l net.Listener, local netip.AddrPort) *tcpSocket {
	s.spare.hold()
	t := &tcpSocket{s: s, listener: l, local: local, stop: make(chan struct{}), open: map[*tcpConn]struct{}{}}
	t.accepts.Go(t.accept)
	return t
}

func (t *tcpSocket) taken() uint64 { return t.count.Load() }

func (t *tcpSocket) drain(ctx context.Context) error {
	t.listener.Close()
	close(t.stop)
	t.accepts.Wait() // it waits for nothing any more; what it has taken from the socket is answered here
	t.mu.Lock()
	for c := range t.open {
		c.stopReading()
	}
	t.mu.Unlock()
	err := wait(ctx, &t.active)
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.open { // only when ctx ended first
		c.conn.Close()
	}
	return err
}

// accept takes connections until the listener is closed. When the process has
// no file descriptor left it closes those that wait, and waits itself, instead of asking again at once.
func (t *tcpSocket) accept() {
	const shortest, longest = 5 * time.Millisecond, time.Second
	delay := shortest
	for {
		conn, err := t.listener.Accept()
		switch {
		case err == nil:
			delay = shortest
			t.accepted(conn)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			t.s.counters.tcpStarved.Add(uint64(t.s.spare.turnAway(t.listener)))
		}
		select {
		case <-t.stop:
			return
		case <-time.After(delay):
			delay = min(2*delay, longest)
		}
	}
}

func (t *tcpSocket) accepted(conn net.Conn) {
	t.count.Add(1)
	client := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	c := newTCPConn(t.s, conn, netip.AddrPortFrom(client.Addr().Unmap(), client.Port()), t.local)
	if !t.s.conns.add(c, &t.s.counters) {
		t.s.counters.tcpRejected.Add(1)
		conn.Close()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[c] = struct{}{}
	t.s.addTally(&c.tally)
	t.s.counters.tcpAccepted.Add(1)
	t.s.counters.tcpOpen.Add(1)
	t.active.Go(func() {
		defer t.closed(c)
		defer t.s.recovered(exchange{client: c.client})
		c.serve()
	})
}

func (t *tcpSocket) closed(c *tcpConn) {
	c.conn.Close()
	t.s.removeTally(&c.tally)
	t.s.conns.remove(c)
	t.s.counters.tcpOpen.Add(-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
}
