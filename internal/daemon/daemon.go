// Package daemon implements `node-dns serve`: it starts, follows changes, hands over to a
// successor, and stops.
//
// It makes no decisions about answers: internal/policy builds a Policy from all inputs,
// internal/resolve answers by it, and internal/admin/view shows it. One goroutine, the follower,
// looks at the host and replaces the Policy in force (takeover.go). The daemon runs unprivileged.
// It requests changes of the host's files with a request file, for which a systemd path unit runs
// origin-dns-dispatcher.
package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolve"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// Config holds the command-line settings. The zero value serves the host itself.
type Config struct {
	Root       string              // prefix of every path; empty means /
	ConfigFile string              // replaces /etc/node-dns/node-dns.yaml below Root; empty means that file
	Listen     []netip.AddrPort    // overrides the configuration if set
	Upstreams  []nameserver.Server // overrides the configuration and NetworkManager if set
	Version    string
	Revision   string         // see control.Versions; shown in metrics; empty if unknown
	Log        *slog.Logger   // nil disables logging
	Looker     hostdns.Looker // inspects the host; New sets its Paths from Root
	// LookInterval is the shortest time between the end of a look at the host and the next look
	// that a hint or a request for the status causes. 0 means 100 ms.
	LookInterval time.Duration
	// TrialInterval is the interval between end-to-end questions. 0 means
	// resolve.TrialInterval.
	TrialInterval time.Duration
	// AwaitRedirected waits until Cilium sends queries elsewhere, while the daemon stops. nil means
	// that it takes redirectedDrain.
	AwaitRedirected func(ctx context.Context)
	// Level is the logger's level, set from the configuration's logLevel. If nil, logLevel has no
	// effect.
	Level *slog.LevelVar
	// Signals are the signals that reload the configuration and stop the daemon, caught as early as
	// possible. Nil disables them.
	Signals *supervise.Signals
	// Bus is the address of the D-Bus bus. If empty, the daemon uses the system bus if Root is /,
	// and otherwise none.
	Bus string
	// Files is the limit of open files. It bounds the queries in flight. 0 means the limit of the
	// process.
	Files int
	// Receivers is the number of UDP sockets per address, and of lanes for upstream queries. That
	// many threads may block in the kernel for queries, and as many for responses, so GOMAXPROCS
	// must be larger by twice that number. 0 means one socket, no lanes and no threads.
	Receivers int
	// TLSAddr is passed to forward.Config. Nil means port 853.
	TLSAddr func(nameserver.Server) (netip.AddrPort, bool)
	// SetMemoryLimit is debug.SetMemoryLimit. If nil, the daemon does not limit the process's
	// memory.
	SetMemoryLimit func(int64) int64
	// Stacks gets the stacks of all goroutines when the watchdog's check fails. Nil disables that.
	Stacks io.Writer
	// SetGCPercent is debug.SetGCPercent. If nil, the daemon does not tune garbage collection.
	SetGCPercent func(int) int
	// APIServer is the address of the Kubernetes API for the pod that this process runs in, as
	// HOST:PORT. Empty outside of a pod.
	APIServer string
	// NodeName is the node's name in the API, for a pod. If empty, the configuration or the host
	// name decides.
	NodeName string
	// Invocation is systemd's ID of this start of the unit (systemd.exec(5), INVOCATION_ID). It is
	// empty if the daemon was started by hand.
	Invocation string
	// Inherited are the files that the service manager passed at the start. The Daemon closes them.
	Inherited []*os.File
}

// Daemon is the running node resolver.
type Daemon struct {
	config Config
	log    *slog.Logger // also feeds the monitor
	plain  *slog.Logger // does not feed the monitor
	paths  paths
	view   *view.View

	sockets       *sockets // never nil
	server        *dnsserver.Server
	resolver      *resolve.Resolver                  // nil until the first look
	ownDNS        atomic.Pointer[policy.FromCluster] // the configuration of the cluster's own DNS; never nil after New
	ownDNSChanged chan struct{}                      // ownDNS has changed and must be saved
	rewatch       chan struct{}                      // how the API is watched may have changed

	hints    chan string          // reasons to look at the host again; coalesced
	lastHint atomic.Pointer[hint] // nil before the first hint
	reloads  chan reloading
	fresh    fresh
	loops    *resolve.Loops

	bus        *dbusapi.Service              // nil without a bus
	busState   atomic.Pointer[dbusapi.State] // settings made over D-Bus; never nil after New
	busChanges chan busChange
	rebus      chan struct{} // the wanted bus names may have changed

	memory memory

	panics journal.Panics // panics outside of queries; panics in queries are counted where they are answered
}

// paths are the daemon's own files and directories.
type paths struct {
	host  hostdns.Paths
	run   string // the runtime directory
	ready string // exists while the daemon answers
	bus   string // saves settings made over D-Bus for the next start
	// history saves the history of upstream servers for the next start.
	history     string
	intercept   string // requests interception from the helper
	intercepted string // the helper's state
	terms       string // how to listen while port 53 changes hands (dnsserver.TermsFile)
	// kubeconfig is used if the configuration names none. snapshot keeps the state of the cluster,
	// in a directory of the daemon's own, because /var/lib/node-dns belongs to the privileged half.
	kubeconfig, snapshot string
	podKubeconfig        string // of the ServiceAccount; empty outside of a pod
	// fromCluster keeps the configuration of the cluster's own DNS, in the same directory.
	fromCluster string
}

func newPaths(c Config) paths {
	run := filepath.Join("/", c.Root, "/run/node-dns")
	return paths{
		host:        hostdns.NewPaths(c.Root),
		run:         run,
		ready:       filepath.Join(run, "ready"),
		bus:         filepath.Join(run, "dbus.json"),
		history:     filepath.Join(run, "servers.json"),
		intercept:   intercept.RequestFile(c.Root),
		intercepted: intercept.StateFile(c.Root),
		terms:       filepath.Join("/", c.Root, dnsserver.TermsFile),

		kubeconfig:  filepath.Join("/", c.Root, "/etc/node-dns/kubeconfig"),
		fromCluster: filepath.Join("/", c.Root, "/var/cache/node-dns/from-cluster.json"),
		snapshot:    filepath.Join("/", c.Root, "/var/cache/node-dns/cluster.snapshot"),
	}
}

// policy returns the Policy in force, or nil before the first look.
func (d *Daemon) policy() *policy.Policy {
	if d.resolver == nil {
		return nil
	}
	return d.resolver.Policy()
}

// localRoom is the number of queries that may be handled besides those that wait for upstreams. It
// keeps cached answers available while upstreams are dead.
const localRoom = 2000

// busChange is a state set over D-Bus, on its way to the follower.
type busChange struct {
	state dbusapi.State
	done  chan error
}

// reloading is a request to reload the configuration.
type reloading struct {
	by   string
	done chan error
}

// memory is the memory limit of this process.
type memory struct {
	own   int64        // GOMEMLIMIT; math.MaxInt64 if unset
	limit atomic.Int64 // current limit of the Go runtime; 0 if none
}

// A hint is a reason why something may have changed.
type hint struct {
	reason string
	at     time.Time
}

// hint reports that something may have changed. It never blocks: one pending hint stands for all
// later ones.
func (d *Daemon) hint(reason string) {
	d.lastHint.Store(&hint{reason, time.Now()})
	select {
	case d.hints <- reason:
	default:
	}
}

// busChanged notifies D-Bus clients and checks the bus names.
func (d *Daemon) busChanged() {
	if d.bus != nil {
		d.bus.Changed()
	}
}
