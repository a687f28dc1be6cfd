package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/kubetest"
)

// wire is a network of one server in memory, so that time can be faked around it.
type wire struct {
	accepted chan net.Conn
	closed   chan struct{}

	mu    sync.Mutex // guards what follows
	down  bool
	conns []*serverEnd
}

// serverEnd is the server's end of a connection.
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

// Write is silent once the connection is frozen.
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

// freeze has nothing more come over the connections that stand, as from a proxy that has lost its server.
func (n *wire) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.freeze()
	}
}

var errDown = errors.New("connection refused")

func newWire() *wire { return &wire{accepted: make(chan net.Conn), closed: make(chan struct{})} }

// dial is Config.Dial.
func (n *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, errDown
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

// setDown closes the connections that stand, and refuses others until it is up again.
func (n *wire) setDown(down bool) {
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
func (n *wire) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *wire) Close() error   { close(n.closed); return nil }
func (n *wire) Addr() net.Addr { return &net.UnixAddr{} }

// fakeTime is synctest.Test, and skips where the race detector is on: that of Go 1.26 crashes now and then on tests that fire many timers with
// fake time (golang/go issue 78156), one of three runs of this package. `make test` runs the package once more without it.
func fakeTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("no build information")
	}
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector crashes on it: golang/go issue 78156")
	}
	synctest.Test(t, f)
}

// newKnownWorld is newFakeWorld where the watcher has had a minute with the objects of the fixture.
func newKnownWorld(t *testing.T) (*world, *wire) {
	t.Helper()
	w, network := newFakeWorld(t)
	w.server.Apply(readFixture(t, "node-dns"))
	w.start()
	time.Sleep(time.Minute)
	synctest.Wait()
	return w, network
}

// newFakeWorld is newWorld over a network in memory, for the bubble of a test with fake time. The API server is empty.
func newFakeWorld(t *testing.T) (*world, *wire) {
	t.Helper()
	n := newWire()
	w := newWorldOf(t, kubetest.New())
	server := &http.Server{Handler: w.server, ReadHeaderTimeout: time.Hour}
	done := make(chan error, 1)
	go func() { done <- server.Serve(n) }()
	t.Cleanup(func() {
		w.stop()
		w.server.CloseWatches()
		server.Close()
		<-done
	})
	w.config.Dial = n.dial
	w.config.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://192.0.2.6"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`
	if err := os.WriteFile(w.config.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, n
}
