package e2e

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// meter is a TCP proxy that counts the bytes that its clients receive, including TLS, as a network
// would.
type meter struct {
	listener net.Listener
	target   string
	received atomic.Int64 // bytes
	wait     sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	clients  []net.Conn
	accepted int
}

// newMeter starts a proxy to target (ADDR:PORT) until the test ends.
func newMeter(t testing.TB, target string) *meter {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return meterAt(t, l, target)
}

// meterAt is newMeter with a listener, which may be in another network namespace than target.
func meterAt(t testing.TB, l net.Listener, target string) *meter {
	t.Helper()
	m := &meter{listener: l, target: target}
	t.Cleanup(func() {
		l.Close()
		m.wait.Wait()
	})
	m.wait.Go(m.accept)
	return m
}

func (m *meter) accept() {
	for {
		client, err := m.listener.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.clients = append(m.clients, client)
		m.accepted++
		m.mu.Unlock()
		m.wait.Go(func() { m.join(client) })
	}
}

// drop closes the open connections, like a load balancer, and returns how many connections there
// have been in total.
func (m *meter) drop() (accepted int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, client := range m.clients {
		client.Close()
	}
	m.clients = nil
	return m.accepted
}

func (m *meter) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.accepted
}

// join copies data until either side closes, and then closes the other.
func (m *meter) join(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp4", m.target)
	if err != nil {
		return
	}
	defer server.Close()
	m.wait.Go(func() {
		io.Copy(server, client)
		server.Close()
	})
	io.Copy(counted{client, &m.received}, server)
}

type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}
