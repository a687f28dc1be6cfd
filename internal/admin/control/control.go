// Package control is the admin's road to the running daemon: a unix socket, and the values that travel over it.
//
// It carries what the daemon knows about itself; it decides nothing but who may ask what. Any local user may open the socket
// and ask what a client of the node can learn anyway. What changes something, and what other clients ask, is for root and the
// members of AdminGroup. The kernel says who has connected.
package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/net/netutil"
)

// APIVersion is carried by every value that travels over the socket.
const APIVersion = "node-dns/v1"

const (
	statusPath = "/v1/status"
	// maxPath is how long a socket's path may be (unix(7), sun_path, without its final zero).
	maxPath = 107
)

// SocketPath is the control socket below root.
func SocketPath(root string) string { return filepath.Join("/", root, "/run/node-dns/control.sock") }

// Listen opens the control socket at path with mode 0666. It is made beside its place and renamed into it, so that it
// is never there with another mode, and one that a killed daemon left behind is replaced. It fails while a daemon
// that lives listens on it.
func Listen(path string) (net.Listener, error) {
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return nil, fmt.Errorf("listening on %s: another node-dns does already", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the socket's directory: %w", err)
	}
	temp := path + ".new"
	if len(temp) > maxPath {
		return nil, fmt.Errorf("listening on %s: the path of a unix socket has at most %d bytes", path, maxPath-len(".new"))
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	err = os.Chmod(temp, 0o666)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		listener.Close() // and remove it
		return nil, fmt.Errorf("placing the control socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	return &socket{Listener: listener, path: path}, nil
}

// socket removes its path when it is closed. Systemd may have removed it before, with the directory.
type socket struct {
	net.Listener
	path string
}

func (s *socket) Close() error {
	err := os.Remove(s.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.Listener.Close())
}

// Serve answers on listener, which must be of a unix socket, until ctx ends, and closes it. Requests under way get a second to
// end.
func Serve(ctx context.Context, listener net.Listener, api API) error {
	return serveWith(ctx, listener, api, adminGroup)
}

func serveWith(ctx context.Context, listener net.Listener, api API, adminGroup func() (int, bool)) error {
	listener = netutil.LimitListener(&entrance{Listener: listener, adminGroup: remembered(adminGroup), guests: map[int]int{}}, maxClients)
	server := &http.Server{
		Handler:        api.handler(),
		ReadTimeout:    2 * time.Second, // also of a connection with nothing to ask
		WriteTimeout:   10 * time.Second,
		MaxHeaderBytes: 8 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext:    withCaller,
	}
	if err := ServeUntil(ctx, listener, server); err != nil {
		return fmt.Errorf("serving the control socket: %w", err)
	}
	return nil
}

// ServeUntil has the server answer on listener until ctx ends, and closes both. Requests under way get a second to end.
func ServeUntil(ctx context.Context, listener net.Listener, server *http.Server) error {
	stopped := make(chan error, 1)
	unwatch := context.AfterFunc(ctx, func() { stopped <- stop(context.WithoutCancel(ctx), server) })
	defer unwatch()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// stop drains the server. A client that is connected and asks nothing is not waited for (Shutdown takes it for one that is
// about to ask, for five seconds), nor is it an error.
func stop(ctx context.Context, server *http.Server) error {
	last, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := server.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}
