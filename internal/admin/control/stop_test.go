package control

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"testing"
)

func TestStopRemovesTheSocket(t *testing.T) {
	path := socketPath(t)
	stop := serve(t, path, func(context.Context) Status { return Status{} })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for the socket", err)
	}
}

// TestStopBeforeStart stops the daemon while it is still starting.
func TestStopBeforeStart(t *testing.T) {
	path := socketPath(t)
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Serve(ctx, listener, API{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for the socket", err)
	}
}

// TestStopAfterTheSocketWent proves that a stop succeeds if an admin or systemd's RuntimeDirectory=
// removed the socket first.
func TestStopAfterTheSocketWent(t *testing.T) {
	path := socketPath(t)
	stop := serve(t, path, func(context.Context) Status { return Status{} })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestStopWithIdleClient proves that a stop succeeds while a client is connected that sends no
// request.
func TestStopWithIdleClient(t *testing.T) {
	path := socketPath(t)
	stop := serve(t, path, func(context.Context) Status { return Status{} })
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := FetchStatus(t.Context(), path); err != nil { // makes the server accept the idle connection first
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// TestStopAnswersWhoAsked proves that a pending request is still answered.
func TestStopAnswersWhoAsked(t *testing.T) {
	path := socketPath(t)
	asked, release := make(chan struct{}), make(chan struct{})
	stop := serve(t, path, func(context.Context) Status { close(asked); <-release; return Status{PID: 9} })
	type answer struct {
		status Status
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		s, err := FetchStatus(context.Background(), path)
		answers <- answer{s, err}
	}()
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	close(release)
	if a := <-answers; a.err != nil || a.status.PID != 9 {
		t.Errorf("got PID %d: %v", a.status.PID, a.err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestBrokenListener proves that Serve returns an error and leaves no goroutine behind (see
// TestMain).
func TestBrokenListener(t *testing.T) {
	path := socketPath(t)
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Serve(context.Background(), listener, API{Status: func(context.Context) Status { return Status{} }}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
