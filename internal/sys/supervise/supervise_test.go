package supervise

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// states records the notifications to the service manager.
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
		want  string // text of the error; "" for nil
	}{
		{"a task fails", []Task{
			{Name: "a", Run: untilEnd},
			{Name: "b", Run: func(context.Context) error { return errBroken }},
		}, "b: broken"},
		{"a task ends early", []Task{
			{Name: "a", Run: untilEnd},
			{Name: "b", Run: func(context.Context) error { return nil }},
		}, "b: ended unexpectedly"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := Run(t.Context(), Config{Tasks: test.tasks, Notify: new(states).notify})
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var told states
	began := make(chan struct{})
	go func() { <-began; cancel() }()
	err := Run(ctx, Config{Notify: told.notify, Tasks: []Task{{Name: "a", Run: func(ctx context.Context) error {
		close(began)
		return untilEnd(ctx)
	}}}})
	if err != nil {
		t.Errorf("got %v", err)
	}
	if got := told.list(); !slices.Contains(got, "READY=1") || !slices.Contains(got, "STOPPING=1") {
		t.Errorf("notified %v", got)
	}
}

func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := &Signals{reload: make(chan os.Signal), stop: make(chan os.Signal)}
		reloads := []error{nil, errBroken}
		var told states
		var seen int
		var log bytes.Buffer
		config := Config{
			Log:     slog.New(slog.NewTextHandler(&log, nil)),
			Notify:  told.notify,
			Signals: signals,
			Tasks:   []Task{{Name: "a", Run: untilEnd}},
			Reload:  func(context.Context) error { seen++; return reloads[seen-1] },
		}
		ended := make(chan error, 1)
		go func() { ended <- Run(t.Context(), config) }()
		signals.reload <- unix.SIGHUP
		signals.reload <- unix.SIGHUP // a failed reload ends nothing
		synctest.Wait()
		signals.stop <- unix.SIGTERM
		if err := <-ended; err != nil {
			t.Errorf("a signal is no failure: %v", err)
		}
		if seen != 2 {
			t.Errorf("reloaded %d times, want 2", seen)
		}
		for _, condition := range []string{"msg=\"reload failed\" error=broken condition=reload-failed\n", "signal=terminated condition=stopping\n"} {
			if !strings.Contains(log.String(), condition) {
				t.Errorf("the log has no %s:\n%s", condition, &log)
			}
		}
		want := []string{"READY=1", "RELOADING=1", "READY=1", "RELOADING=1", "READY=1", "STOPPING=1"}
		if got := told.list(); !slices.Equal(got, want) {
			t.Errorf("notified %v, want %v", got, want)
		}
	})
}

// TestStopDuringReload: SIGTERM does not wait for pending reloads. Eight SIGHUPs in a row used to
// cause eight reloads, of 0.7 s each if NetworkManager hangs, and SIGTERM waited for all of them.
func TestStopDuringReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := &Signals{reload: make(chan os.Signal, 1), stop: make(chan os.Signal, 1)}
		var told states
		ended := make(chan error, 1)
		go func() {
			ended <- Run(t.Context(), Config{
				Notify: told.notify, Signals: signals, Tasks: []Task{{Name: "a", Run: untilEnd}}, Reload: untilEnd,
			})
		}()
		synctest.Wait() // ready
		signals.reload <- unix.SIGHUP
		synctest.Wait()
		signals.stop <- unix.SIGTERM
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got, want := told.list(), []string{"READY=1", "RELOADING=1", "STOPPING=1"}; !slices.Equal(got, want) {
			t.Errorf("notified %v, want %v", got, want)
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
		var log bytes.Buffer
		if err := Run(ctx, Config{Tasks: []Task{task}, Notify: new(states).notify, Log: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), " condition=task-panic\n"); got != 1 {
			t.Errorf("the log has %d panics:\n%s", got, &log)
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms}; !slices.Equal(began, want) {
			t.Errorf("began at %v, want %v", began, want)
		}
	})
}

// TestFailuresAreLoggedOnce: a watch that cannot start (no inotify instance left) used to log a
// line every 30 s forever.
func TestFailuresAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tries := 0
		task := Task{Name: "a", Restart: true, Run: func(ctx context.Context) error {
			tries++
			switch {
			case tries == 20:
				cancel()
				return nil
			case tries == 10:
				return errors.New("broken otherwise")
			case tries > 15:
				time.Sleep(healthy) // it worked for a while
			}
			return errBroken
		}}
		var log bytes.Buffer
		config := Config{Tasks: []Task{task}, Notify: new(states).notify, Log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := Run(ctx, config); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), " condition=task-failed\n"); got != 1+1+1+4 {
			t.Errorf("logged %d times:\n%s", got, &log)
		}
	})
}

func TestBackoff(t *testing.T) {
	var b backoff
	for range 20 {
		b.next(0)
	}
	if got := b.next(0); got != longPause {
		t.Errorf("after many failures: got %v, want %v", got, longPause)
	}
	if got := b.next(healthy); got != firstPause {
		t.Errorf("after a healthy run: got %v, want %v", got, firstPause)
	}
}

// TestServiceManager uses a real notify socket like systemd's.
func TestServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	signals := &Signals{reload: make(chan os.Signal), stop: make(chan os.Signal)}
	ended := make(chan error, 1)
	go func() {
		ended <- Run(context.Background(), Config{
			Signals: signals,
			Reload:  func(context.Context) error { return nil },
			Tasks:   []Task{{Name: "a", Run: untilEnd}},
		})
	}()
	expect := func(want string) {
		t.Helper()
		buf := make([]byte, 100)
		socket.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := socket.Read(buf)
		if matched, _ := filepath.Match(want, string(buf[:n])); err != nil || !matched {
			t.Errorf("got %q, %v; want %s", buf[:n], err, want)
		}
	}
	expect("READY=1")
	signals.reload <- unix.SIGHUP
	expect("RELOADING=1\nMONOTONIC_USEC=[0-9]*")
	expect("READY=1")
	signals.stop <- unix.SIGTERM
	expect("STOPPING=1")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestSecondSignal: while draining, a SIGHUP does not end the process, and a second SIGTERM ends it
// at once. This needs a process of its own.
func TestSecondSignal(t *testing.T) {
	const stage = "NODEDNS_SUPERVISE_DRAINS"
	if os.Getenv(stage) != "" {
		task := func(ctx context.Context) error {
			fmt.Println("running")
			return untilEnd(ctx)
		}
		_ = Run(t.Context(), Config{Signals: CatchSignals(), Tasks: []Task{{Name: "a", Run: task}}})
		fmt.Println("draining") // as callers do after Run
		time.Sleep(time.Minute)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{self, "-test.run=^TestSecondSignal$", "-test.timeout=1m"}
	// A test that runs with SIGHUP ignored, as under nohup(1), would pass that on (env(1),
	// coreutils 8.31).
	if defaults := []string{"env", "--default-signal=HUP,USR1,USR2"}; exec.Command("env", "--default-signal=HUP", "true").Run() == nil {
		argv = append(defaults, argv...)
	}
	child := exec.Command(argv[0], argv[1:]...)
	child.Env = append(os.Environ(), stage+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	steps := map[string][]os.Signal{"running": {unix.SIGTERM}, "draining": {unix.SIGHUP, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTERM}}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		for _, signal := range steps[lines.Text()] {
			if err := child.Process.Signal(signal); err != nil {
				t.Error(err)
			}
		}
	}
	_ = child.Wait() // the outcome is in ProcessState
	if got := child.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != unix.SIGTERM {
		t.Errorf("ended by %v, want the second SIGTERM", child.ProcessState)
	}
}

// TestReportAndForget: SIGUSR1 and SIGUSR2 call their functions, even if they came before Run, and
// do not end the process.
func TestReportAndForget(t *testing.T) {
	done := make(chan string, 2)
	task := Task{Name: "a", Run: func(ctx context.Context) error {
		for _, want := range []string{"report", "forget"} {
			if got := <-done; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if want == "report" {
				kill(t, unix.SIGUSR2)
			}
		}
		kill(t, unix.SIGTERM)
		return untilEnd(ctx)
	}}
	signals := CatchSignals()
	kill(t, unix.SIGUSR1)
	config := Config{Signals: signals, Tasks: []Task{task}, Notify: new(states).notify}
	config.Report, config.Forget = func() { done <- "report" }, func() { done <- "forget" }
	if err := Run(t.Context(), config); err != nil {
		t.Error(err)
	}
}

// TestRealSignal: the process's own SIGTERM ends the tasks, and SIGHUP reloads, even if it came
// before Run. Signals used to be caught only by Run, so a SIGHUP during the daemon's first
// inspection of its host (0.7 s if NetworkManager hangs) killed it.
func TestRealSignal(t *testing.T) {
	reloaded := make(chan struct{}, 2)
	task := Task{Name: "a", Run: func(ctx context.Context) error {
		<-reloaded
		kill(t, unix.SIGHUP)
		<-reloaded
		kill(t, unix.SIGTERM)
		return untilEnd(ctx)
	}}
	signals := CatchSignals()
	kill(t, unix.SIGHUP)
	err := Run(t.Context(), Config{Signals: signals, Tasks: []Task{task}, Notify: new(states).notify, Reload: func(context.Context) error {
		reloaded <- struct{}{}
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
