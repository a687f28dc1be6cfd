package supervise

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// states collects what the service manager is told.
type states struct {
	mu  sync.Mutex
	all []string
}

func (s *states) notify(state string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, _, _ = strings.Cut(state, "\n")
	s.all = append(s.all, state)
	return nil
}

func (s *states) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func TestRunEnds(t *testing.T) {
	tests := []struct {
		name  string
		tasks []Task
		want  string // of the error; "": nil
	}{
		{"when a task fails, with its name", []Task{
			{Name: "a", Run: untilEnd},
			{Name: "b", Run: func(context.Context) error { return errBroken }},
		}, "b: broken"},
		{"when a task ends before its time", []Task{
			{Name: "a", Run: untilEnd},
			{Name: "b", Run: func(context.Context) error { return nil }},
		}, "b: ended before its time"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := Run(t.Context(), Config{Tasks: test.tasks, Notify: new(states).notify, Signals: make(chan os.Signal)})
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, expected %s", err, test.want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var told states
	began := make(chan struct{})
	go func() { <-began; cancel() }()
	err := Run(ctx, Config{Notify: told.notify, Signals: make(chan os.Signal), Tasks: []Task{{Name: "a", Run: func(ctx context.Context) error {
		close(began)
		return untilEnd(ctx)
	}}}})
	if err != nil {
		t.Errorf("got %v", err)
	}
	if got := told.list(); !slices.Contains(got, "READY=1") || !slices.Contains(got, "STOPPING=1") {
		t.Errorf("told the service manager %v", got)
	}
}

func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		reloads := []error{nil, errBroken}
		var told states
		var seen int
		config := Config{
			Notify:  told.notify,
			Signals: signals,
			Tasks:   []Task{{Name: "a", Run: untilEnd}},
			Reload:  func(context.Context) error { seen++; return reloads[seen-1] },
		}
		ended := make(chan error, 1)
		go func() { ended <- Run(t.Context(), config) }()
		signals <- unix.SIGHUP
		signals <- unix.SIGHUP // a failed reload ends nothing
		signals <- unix.SIGTERM
		if err := <-ended; err != nil {
			t.Errorf("a signal is no failure: %v", err)
		}
		if seen != 2 {
			t.Errorf("reloaded %d times, expected 2", seen)
		}
		want := []string{"READY=1", "RELOADING=1", "READY=1", "RELOADING=1", "READY=1", "STOPPING=1"}
		if got := told.list(); !slices.Equal(got, want) {
			t.Errorf("told the service manager %v, expected %v", got, want)
		}
	})
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var began []time.Duration
		task := Task{Name: "a", Restart: true, Run: func(context.Context) error {
			began = append(began, time.Since(start))
			if len(began) == 3 {
				panic("odd input")
			}
			if len(began) == 5 {
				cancel()
			}
			return errBroken
		}}
		if err := Run(ctx, Config{Tasks: []Task{task}, Notify: new(states).notify, Signals: make(chan os.Signal)}); err != nil {
			t.Fatal(err)
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms}; !slices.Equal(began, want) {
			t.Errorf("began at %v, expected %v", began, want)
		}
	})
}

func TestBackoff(t *testing.T) {
	var b backoff
	for range 20 {
		b.next(0)
	}
	if got := b.next(0); got != longPause {
		t.Errorf("after many failures it waits %v, expected %v", got, longPause)
	}
	if got := b.next(healthy); got != firstPause {
		t.Errorf("after a healthy run it waits %v, expected %v", got, firstPause)
	}
}

// TestServiceManager runs against a real notify socket, as systemd's is.
func TestServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		buf := make([]byte, 100)
		if n, err := socket.Read(buf); err != nil || string(buf[:n]) != "READY=1" {
			t.Errorf("got %q, %v; expected READY=1", buf[:n], err)
		}
	}()
	if err := Run(ctx, Config{Signals: make(chan os.Signal), Tasks: []Task{{Name: "a", Run: untilEnd}}}); err != nil {
		t.Fatal(err)
	}
}

// TestRealSignal: the process's own SIGTERM ends the tasks, and SIGHUP reloads.
func TestRealSignal(t *testing.T) {
	reloaded := make(chan struct{})
	task := Task{Name: "a", Run: func(ctx context.Context) error {
		kill(t, unix.SIGHUP)
		<-reloaded
		kill(t, unix.SIGTERM)
		return untilEnd(ctx)
	}}
	// The task may begin before the signals are caught by Run only if Run catches them after it starts tasks.
	err := Run(t.Context(), Config{Tasks: []Task{task}, Notify: new(states).notify, Reload: func(context.Context) error {
		close(reloaded)
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
}

func kill(t *testing.T, signal unix.Signal) {
	if err := unix.Kill(os.Getpid(), signal); err != nil {
		t.Error(err)
	}
}
