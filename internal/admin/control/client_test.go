package control

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// TestAwaitReady waits from before the daemon starts until it is ready.
func TestAwaitReady(t *testing.T) {
	path := socketPath(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running errgroup.Group
	waited := make(chan error)
	go func() { waited <- AwaitReady(t.Context(), path) }()
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	running.Go(func() error {
		return Serve(ctx, listener, API{Status: func(context.Context) Status { return Status{Ready: asked.Add(1) > 3} }})
	})
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if got := asked.Load(); got != 4 {
		t.Errorf("got %d requests; the daemon was ready at the fourth", got)
	}
	cancel()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAwaitReadyInVain(t *testing.T) {
	tests := []struct {
		name   string
		status *Status // nil if the daemon does not run
		is     error
		says   string
	}{
		{"it does not run", nil, ErrNotRunning, "no process listens"},
		{"it starts", &Status{}, errNotReady, "it is starting"},
		{"it has problems", &Status{Problems: []string{"a", "b"}}, errNotReady, "a; b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := socketPath(t)
			ctx, cancel := context.WithCancel(t.Context())
			var running errgroup.Group
			if test.status != nil {
				listener, err := Listen(path)
				if err != nil {
					t.Fatal(err)
				}
				running.Go(func() error {
					return Serve(ctx, listener, API{Status: func(context.Context) Status { return *test.status }})
				})
			}
			short, end := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer end()
			if err := AwaitReady(short, path); !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %v: %s", err, test.is, test.says)
			}
			cancel()
			if err := running.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
