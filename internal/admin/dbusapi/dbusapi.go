// Package dbusapi serves node-dns on the system bus. It has dnsmasq's name and interface
// (uk.org.thekelleys.dnsmasq, of dnsmasq 2.90), through which other programs set servers, and our
// own (org.node_dns.Manager), which shows the result.
//
// It is separate from control, the admin's own interface to the daemon, because here other programs
// give orders. Their input is validated and stored together with its sender. The daemon decides how
// to apply it.
package dbusapi

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// Names on the bus, and the objects behind them.
const (
	busName     = "org.freedesktop.DBus"
	DnsmasqName = "uk.org.thekelleys.dnsmasq"
	ManagerName = "org.node_dns"

	dnsmasqPath      = "/uk/org/thekelleys/dnsmasq"
	managerPath      = "/org/node_dns"
	managerInterface = "org.node_dns.Manager"
)

const (
	// setupTimeout is the timeout for connecting to the bus and for identifying a caller. A bus
	// that was stopped by a signal never answers.
	setupTimeout = 5 * time.Second
	// firstPause and lastPause are the pauses between connection attempts. dnsmasq tries every 250
	// ms (DBus-interface in its source) and does not reconnect after the bus restarts. node-dns
	// reconnects within a second.
	firstPause = 50 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// settle is how long changes are collected before they are announced.
	settle = 100 * time.Millisecond
	// askAgain is the interval for requesting a name that the bus refused. The policy file may have
	// been installed in the meantime.
	askAgain = 30 * time.Second
	// maxCalls is the maximum number of pending calls. Further calls are refused.
	maxCalls = 256
	// complainEvery is the minimum interval between log lines about calls that changed nothing.
	complainEvery = 10 * time.Second
	// setTimeout is how long the daemon may take to apply a change. It may be waiting for a
	// NetworkManager that hangs.
	setTimeout = 10 * time.Second
)

// Config connects a Service with the daemon. Its functions are called from one goroutine, except
// for Changed.
type Config struct {
	// Address is the address of the bus. Empty means the system bus.
	Address string
	Version string
	// State returns the current state.
	State func() State
	// Set replaces the whole state and returns when the new state is in effect. If it returns an
	// error, nothing has changed and the caller gets the error.
	Set func(context.Context, State) error
	// FlushCache clears the cache and returns the number of removed responses.
	FlushCache func() int
	// Reload reloads the configuration.
	Reload   func(context.Context) error
	Counters func() Counters
	// Loops returns the addresses of servers that send our own queries back to us.
	Loops  func() []string
	Status func() control.Status
	Log    *slog.Logger
	// Panics counts panics in calls, which get an error as the answer. nil disables counting.
	Panics *journal.Panics
}

// Service is our end of the bus. Its methods are safe for concurrent use.
type Service struct {
	config  Config
	changed chan struct{} // signals that the status may have changed
	zero    Counters      // counters at the last ClearMetrics; belongs to Run's goroutine

	mu      sync.Mutex        // guards the fields below
	problem string            // reason why there is no connection
	names   []control.BusName // requested names and their state
}

// New returns a Service that does nothing until Run is called.
func New(c Config) *Service {
	if c.Panics == nil {
		c.Panics = new(journal.Panics)
	}
	return &Service{config: c, changed: make(chan struct{}, 1), problem: "not connected yet"}
}

var errBusGone = errors.New("the connection to the bus ended")

// Run owns the names, DnsmasqName and ManagerName, and answers calls to them until ctx ends. If the
// bus disappears or is missing, Run reconnects with growing pauses. It waits for a name that
// another process has or that the bus refuses. Run returns nil, and only after ctx has ended. It
// must not be called concurrently.
func (s *Service) Run(ctx context.Context, names ...string) error {
	pause, said := firstPause, ""
	for {
		err := s.connection(ctx, names)
		s.disconnected(err)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errBusGone) {
			pause, said = firstPause, ""
		}
		if said != err.Error() { // log changes, not every attempt
			said = err.Error()
			s.config.Log.Warn("not on D-Bus", "error", err, journal.BusAway.Attr())
		}
		if !supervise.Sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, lastPause)
	}
}

// Changed announces that the status may have changed, so that listeners soon get a signal. It never
// blocks.
func (s *Service) Changed() { supervise.Wake(s.changed) }

// Names returns the requested names with their state, and the reason why there is no connection.
// The reason is empty while connected.
func (s *Service) Names() (names []control.BusName, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]control.BusName{}, s.names...), s.problem
}

func (s *Service) named(name control.BusName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = ""
	for i := range s.names {
		if s.names[i].Name == name.Name {
			s.names[i] = name
			return
		}
	}
	s.names = append(s.names, name)
}

func (s *Service) disconnected(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names, s.problem = nil, err.Error()
}
