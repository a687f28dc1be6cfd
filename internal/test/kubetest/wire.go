package kubetest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Wire is an in-memory network with one server, so that tests can fake time around it. Its methods
// may be called concurrently.
type Wire struct {
	accepted chan net.Conn
	closed   chan struct{}

	mu    sync.Mutex // guards the fields below
	down  bool
	conns []*serverEnd
}

type serverEnd struct {
	net.Conn
	frozen, closed chan struct{}
	freeze, end    func() // close these
}

func newServerEnd(conn net.Conn) *serverEnd {
	e := &serverEnd{Conn: conn, frozen: make(chan struct{}), closed: make(chan struct{})}
	e.freeze = sync.OnceFunc(func() { close(e.frozen) })
	e.end = sync.OnceFunc(func() { close(e.closed) })
	return e
}

// Write blocks once the connection is frozen.
func (e *serverEnd) Write(p []byte) (int, error) {
	select {
	case <-e.frozen:
		<-e.closed
		return 0, net.ErrClosed
	default:
		return e.Conn.Write(p)
	}
}

func (e *serverEnd) Close() error {
	e.end()
	return e.Conn.Close()
}

// Freeze stops all data from the server on existing connections, like a proxy that has lost its
// server.
func (n *Wire) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.freeze()
	}
}

// ErrDown is the error of Dial while the network is down.
var ErrDown = errors.New("connection refused")

// NewWire returns a working network, on which the server listens.
func NewWire() *Wire { return &Wire{accepted: make(chan net.Conn), closed: make(chan struct{})} }

// Dial connects to the server, regardless of the address.
func (n *Wire) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, ErrDown
	}
	client, other := net.Pipe()
	server := newServerEnd(other)
	n.conns = append(n.conns, server)
	select {
	case n.accepted <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// SetDown closes the existing connections and refuses new ones until the network is up again.
func (n *Wire) SetDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	if !down {
		return
	}
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

// Accept, Close and Addr implement net.Listener.
func (n *Wire) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *Wire) Close() error   { close(n.closed); return nil }
func (n *Wire) Addr() net.Addr { return &net.UnixAddr{} }
