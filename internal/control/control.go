// Package control is the admin's road to the running daemon: a unix socket, and the values that travel over it.
//
// It carries what the daemon knows about itself; it decides nothing. Whoever may open the socket (root and the group
// of node-dns, mode 0660) may read all of it.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
)

// APIVersion is carried by every value that travels over the socket.
const APIVersion = "node-dns/v1"

// ErrNotRunning says that nobody listens on the control socket.
var ErrNotRunning = errors.New("node-dns is not running")

const (
	statusPath = "/v1/status"
	// maxPath is how long a socket's path may be (unix(7), sun_path, without its final zero).
	maxPath = 107
	// maxStatus bounds what a client reads; a status with every table full is well below it.
	maxStatus = 8 << 20
	// maxClients may be connected at a time; the next ones wait.
	maxClients = 16
)

// SocketPath is the control socket below root.
func SocketPath(root string) string { return filepath.Join("/", root, "/run/node-dns/control.sock") }

// Listen opens the control socket at path with mode 0660. It is made beside its place and renamed into it, so that it
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
	err = os.Chmod(temp, 0o660)
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

// Serve answers on listener until ctx ends, and closes it. Requests under way get a second to end. The context of status
// ends with ctx, and when its client goes away.
func Serve(ctx context.Context, listener net.Listener, status func(context.Context) Status) error {
	listener = netutil.LimitListener(listener, maxClients)
	server := &http.Server{
		Handler:        handler(status),
		ReadTimeout:    2 * time.Second, // also of a connection with nothing to ask
		WriteTimeout:   10 * time.Second,
		MaxHeaderBytes: 8 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan error, 1)
	unwatch := context.AfterFunc(ctx, func() { stopped <- stop(context.WithoutCancel(ctx), server) })
	defer unwatch()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the control socket: %w", err)
	}
	return <-stopped
}

// handler answers the one question that there is.
func handler(status func(context.Context) Status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(status(r.Context())) // a client that went away needs no answer
	})
	return mux
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

// FetchStatus asks the daemon that listens on path. It returns ErrNotRunning when none does.
func FetchStatus(ctx context.Context, path string) (Status, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node-dns"+statusPath, nil)
	if err != nil {
		return Status{}, err
	}
	response, err := client.Do(request)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return Status{}, fmt.Errorf("%w: nobody listens on %s", ErrNotRunning, path)
	}
	if errors.Is(err, os.ErrPermission) {
		return Status{}, fmt.Errorf("asking node-dns at %s: it is for root and the group node-dns: %w", path, os.ErrPermission)
	}
	if err != nil {
		return Status{}, fmt.Errorf("asking node-dns: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Status{}, fmt.Errorf("asking node-dns: it said %s", response.Status)
	}
	var status Status
	if err := json.NewDecoder(io.LimitReader(response.Body, maxStatus)).Decode(&status); err != nil {
		return Status{}, fmt.Errorf("reading node-dns's status: %w", err)
	}
	return status, nil
}
