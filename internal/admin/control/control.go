// Package control connects admins with the running daemon: a unix socket, and the values that
// travel over it.
//
// The package reports the daemon's state and decides only about access. Any local user may open the
// socket and ask for what a client of the node can find out anyway. Changes and data about other
// clients are for root and members of AdminGroup. The kernel identifies the caller.
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

// APIVersion is part of every value that travels over the socket.
const APIVersion = "node-dns/v1"

const (
	statusPath = "/v1/status"
	// maxPath is the maximum length of a socket's path (unix(7), sun_path without the final zero).
	maxPath = 107
)

// Texts returns the string of each value. The result is never nil, so that JSON has no null.
func Texts[T fmt.Stringer](values []T) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = value.String()
	}
	return all
}

// SocketPath returns the path of the control socket below root.
func SocketPath(root string) string { return filepath.Join("/", root, "/run/node-dns/control.sock") }

// Listen opens the control socket at path with mode 0666. It creates the socket under another name
// and renames it. The socket thus never exists with another mode, and it replaces one that a killed
// daemon left behind. Listen fails if a running daemon listens on path.
func Listen(path string) (net.Listener, error) {
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return nil, fmt.Errorf("listening on %s: another node-dns already uses this socket", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("creating the directory of the control socket: %w", err)
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
		listener.Close() // also removes the file
		return nil, fmt.Errorf("placing the control socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	return &socket{Listener: listener, path: path}, nil
}

// socket removes its path when it is closed. systemd may already have removed the path together
// with its directory.
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

// readTimeout is the time that a request may take to arrive, after the connection has a slot.
const readTimeout = 2 * time.Second

// Serve answers requests on listener, which must be a unix socket, until ctx ends. It then closes
// listener and gives pending requests one second to finish.
func Serve(ctx context.Context, listener net.Listener, api API) error {
	return serveWith(ctx, listener, api, adminGroup)
}

func serveWith(ctx context.Context, listener net.Listener, api API, adminGroup func() (int, bool)) error {
	listener = netutil.LimitListener(&callerListener{Listener: listener, adminGroup: remembered(adminGroup), guests: newGuestSlots(guestPatience)}, maxClients)
	server := &http.Server{
		Handler:        api.handler(),
		ReadTimeout:    readTimeout,
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

// ServeUntil runs server on listener until ctx ends and closes both. Pending requests get one
// second to finish.
func ServeUntil(ctx context.Context, listener net.Listener, server *http.Server) error {
	stopped := make(chan error, 1)
	unwatch := context.AfterFunc(ctx, func() { stopped <- stop(context.WithoutCancel(ctx), server) })
	defer unwatch()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// stop drains the server. It closes connections that never sent a request without an error.
// Shutdown would wait five seconds for such a connection, because it expects a request on it.
func stop(ctx context.Context, server *http.Server) error {
	last, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := server.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}
