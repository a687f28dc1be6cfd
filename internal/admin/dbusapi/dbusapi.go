// Package dbusapi is node-dns on the system bus: dnsmasq's name and interface (uk.org.thekelleys.dnsmasq, of dnsmasq 2.90), by which
// other programs set servers, and our own (org.node_dns.Manager), by which they see what came of it.
//
// It is apart from control, which is the admin's own road to the daemon, because here others give orders: what they say is
// checked and remembered with who said it. What is done about it is the daemon's.
package dbusapi

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// The names on the bus, and the objects behind them.
const (
	busName     = "org.freedesktop.DBus"
	DnsmasqName = "uk.org.thekelleys.dnsmasq"
	ManagerName = "org.node_dns"

	dnsmasqPath      = "/uk/org/thekelleys/dnsmasq"
	managerPath      = "/org/node_dns"
	managerInterface = "org.node_dns.Manager"
)

const (
	// setupTimeout is how long a bus may take to let us in, or to answer about a caller. One that was stopped by a signal never
	// answers.
	setupTimeout = 5 * time.Second
	// firstPause and lastPause are between tries to connect. dnsmasq tries every 250 ms (DBus-interface in its source), and is
	// not back after the bus restarts; we are within a second.
	firstPause = 50 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// settle is how long changes are gathered before they are announced.
	settle = 100 * time.Millisecond
	// askAgain is how soon a name that we may not own is asked for again: the policy file may have been installed meanwhile.
	askAgain = 30 * time.Second
	// maxCalls may wait to be answered; the next ones are refused.
	maxCalls = 256
	// complainEvery is how often a call that changed nothing is logged.
	complainEvery = 10 * time.Second
	// setTimeout is how long the daemon may take to take something over; it may be looking at a NetworkManager that hangs.
	setTimeout = 10 * time.Second
)

// Config is what a Service speaks for. Its functions are called from one goroutine, but for Changed.
type Config struct {
	// Address is the bus's; "" is the system bus.
	Address string
	Version string
	// State returns what is set now.
	State func() State
	// Set takes a state over instead, whole, and returns when it is in force. Its error is told to the caller, and nothing has
	// changed then.
	Set func(context.Context, State) error
	// FlushCache forgets all responses and returns how many they were.
	FlushCache func() int
	// Reload reads the configuration again.
	Reload   func(context.Context) error
	Counters func() Counters
	// Loops are the addresses of the servers that were found to send our own queries back to us.
	Loops  func() []string
	Status func() control.Status
	Log    *slog.Logger
	// Panics counts those of calls, which get an error instead of an answer. Nil: nobody asks.
	Panics *journal.Panics
}

// A Service is our end of the bus. Its methods may be called concurrently.
type Service struct {
	config  Config
	changed chan struct{} // something of the status may have
	zero    Counters      // what the counters said at the last ClearMetrics; belongs to Run's goroutine

	mu      sync.Mutex        // guards what follows
	problem string            // why there is no connection
	names   []control.BusName // those that are wanted, and what became of them
}

// New makes a Service that does nothing before Run.
func New(c Config) *Service {
	if c.Panics == nil {
		c.Panics = new(journal.Panics)
	}
	return &Service{config: c, changed: make(chan struct{}, 1), problem: "not connected yet"}
}

var errBusGone = errors.New("the connection to the bus ended")

// Run owns the names, of DnsmasqName and ManagerName, and answers on them, until ctx ends. It connects again, with growing
// pauses, when the bus goes away or is not there. A name that another process has, or that we may not own, is waited for. It
// returns nil when ctx ends, and not before. It must not run twice at a time.
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
		if said != err.Error() { // a state change, not every try
			said = err.Error()
			s.config.Log.Warn("not on D-Bus", "error", err, journal.BusAway.Attr())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// Changed says that the status may have changed: who listens to our signals is told soon. It never blocks.
func (s *Service) Changed() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Names are the names that are wanted and what became of them, and why there is no connection, "" when there is one.
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
