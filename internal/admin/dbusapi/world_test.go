package dbusapi

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a bus, a Service on it, and the state behind the Service.
type world struct {
	t       *testing.T
	bus     *lab.PrivateBus
	service *Service
	log     lab.Text
	names   int    // number of names that the Service requests
	stop    func() // stops the Service and waits for it

	mu     sync.Mutex // guards the fields below
	state  State
	sets   []string // all states that were set, in order
	status control.Status
	onSet  func() error
}

// newWorld prepares a bus and a Service without starting them.
func newWorld(t *testing.T, policies ...string) *world {
	t.Helper()
	w := &world{t: t, bus: lab.NewPrivateBus(t, policies...), stop: func() {}}
	w.service = New(Config{
		Address: w.bus.Address(), Version: "test",
		State:      func() State { w.mu.Lock(); defer w.mu.Unlock(); return w.state },
		Set:        w.set,
		FlushCache: func() int { return 7 },
		Reload:     func(context.Context) error { return errors.New("node-dns.yaml:1:1: a fault") },
		Counters:   func() Counters { return Counters{} },
		Loops:      func() []string { return nil },
		Status:     func() control.Status { w.mu.Lock(); defer w.mu.Unlock(); return w.status },
		Log:        slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	return w
}

// start starts the bus and the Service.
func start(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.bus.Start()
	w.run(DnsmasqName, ManagerName)
	w.awaitNames()
	return w
}

func (w *world) run(names ...string) {
	w.names = len(names)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.service.Run(ctx, names...) }()
	w.stop = func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
	w.t.Cleanup(func() { w.stop() })
}

func (w *world) set(_ context.Context, state State) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.onSet != nil {
		if err := w.onSet(); err != nil {
			return err
		}
	}
	w.state = state
	w.sets = append(w.sets, texts(state.Rules))
	return nil
}

// wasSet returns all states that were set, in order.
func (w *world) wasSet() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sets)
}

// await polls until a condition holds that depends on other goroutines or processes.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			names, problem := w.service.Names()
			w.t.Fatalf("timeout waiting for %s; names %+v, %q; log:\n%s", what, names, problem, w.log.String())
		}
	}
}

// awaitNames waits until all names are ours.
func (w *world) awaitNames() {
	w.t.Helper()
	w.await("names", func() bool {
		names, problem := w.service.Names()
		for _, name := range names {
			if !name.Owned {
				return false
			}
		}
		return problem == "" && len(names) == w.names // the names become known one after the other
	})
}

// dial connects another program to the bus.
func (w *world) dial() *dbus.Conn {
	w.t.Helper()
	conn, err := dbus.Connect(w.bus.Address())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

func dnsmasqOf(conn *dbus.Conn) dbus.BusObject { return conn.Object(DnsmasqName, dnsmasqPath) }

func managerOf(conn *dbus.Conn) dbus.BusObject { return conn.Object(ManagerName, managerPath) }

// signals returns the signals with these names that conn receives from now on.
func (w *world) signals(conn *dbus.Conn, members ...string) <-chan *dbus.Signal {
	w.t.Helper()
	for _, member := range members {
		if err := conn.AddMatchSignal(dbus.WithMatchMember(member)); err != nil {
			w.t.Fatal(err)
		}
	}
	signals := make(chan *dbus.Signal, 100)
	conn.Signal(signals)
	return signals
}

// next returns the next signal with that name.
func (w *world) next(signals <-chan *dbus.Signal, member string) *dbus.Signal {
	w.t.Helper()
	for timeout := time.After(20 * time.Second); ; {
		select {
		case signal := <-signals:
			if signal != nil && signal.Name == member {
				return signal
			}
		case <-timeout:
			w.t.Fatalf("no signal %s", member)
		}
	}
}
