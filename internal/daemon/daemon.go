// Package daemon is `node-dns serve`: it starts, follows changes, hands over to a successor, and stops.
//
// It decides nothing about answers: internal/policy makes a Policy of all inputs, internal/resolve answers by it, and
// internal/admin/view shows it. One goroutine, the follower, looks at the host and puts the next Policy in the place of the last one
// (takeover.go). The daemon runs unprivileged: it asks for changes of the host's files by a request file, which a systemd path unit
// turns into a run of origin-dns-dispatcher.
package daemon

import (
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
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolve"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// Config is what the command line says. Its zero value serves the host itself.
type Config struct {
	Root       string              // every path is below it; "": /
	ConfigFile string              // what is served by instead of /etc/node-dns/node-dns.yaml below Root; "": that
	Listen     []netip.AddrPort    // none: what the configuration says
	Upstreams  []nameserver.Server // none: what the configuration and NetworkManager say
	Version    string
	Revision   string         // control.Versions', which metrics show; "": it is not known
	Log        *slog.Logger   // nil: silent
	Looker     hostdns.Looker // how the host is looked at; its Paths are set from Root
	// Level is the logger's level; the configuration's logLevel sets it. Nil: the level is not ours to set.
	Level *slog.LevelVar
	// Signals are those that reload the configuration and end the daemon, caught as early as the process can. Nil: none.
	Signals *supervise.Signals
	// Bus is the address of the bus to be on. "": the system bus, below the host's own root; below another one none.
	Bus string
	// Files is how many files may be open; the queries under way are bounded by it. 0: what the process's limit says.
	Files int
	// Receivers is how many UDP sockets an address gets, and lanes upstreams are asked on. As many threads may wait in the
	// kernel for queries, and for responses; GOMAXPROCS must be twice as many more. 0: one socket, no lane, and no thread.
	Receivers int
	// TLSAddr is forward.Config's. Nil: port 853.
	TLSAddr func(nameserver.Server) (netip.AddrPort, bool)
	// SetMemoryLimit is debug.SetMemoryLimit. Nil: the process's memory is not ours to bound.
	SetMemoryLimit func(int64) int64
	// Stacks gets what all goroutines do when the watchdog's check fails. Nil: nobody does.
	Stacks io.Writer
	// SetGCPercent is debug.SetGCPercent. Nil: it is not ours to say when memory is collected.
	SetGCPercent func(int) int
	// Invocation is systemd's ID of this start of the unit (systemd.exec(5), INVOCATION_ID). "": started by hand.
	Invocation string
	// Inherited are the files that the service manager passed at the start. The Daemon closes them.
	Inherited []*os.File
}

// Daemon is the running node resolver.
type Daemon struct {
	config Config
	log    *slog.Logger // who watches is told of it too
	plain  *slog.Logger // and not of this
	paths  paths
	view   *view.View

	sockets       *sockets // never nil
	server        *dnsserver.Server
	resolver      *resolve.Resolver                  // nil until the first look
	ownDNS        atomic.Pointer[policy.FromCluster] // the configuration of the cluster's own DNS; never nil after New
	ownDNSChanged chan struct{}                      // and is to be kept
	rewatch       chan struct{}                      // how the API is watched may have changed

	hints    chan string          // reasons to look again; coalesced
	lastHint atomic.Pointer[hint] // nil: none yet
	reloads  chan reloading
	fresh    fresh
	loops    resolve.Loops
	rerouted chan struct{} // the upstreams have changed: probe them
	suspects chan struct{} // our questions seem to come back: probe them soon

	bus        *dbusapi.Service              // nil: we are on no bus
	busState   atomic.Pointer[dbusapi.State] // what was set over D-Bus; never nil after New
	busChanges chan busChange
	rebus      chan struct{} // the names that are wanted may have changed

	memory memory

	panics journal.Panics // of all but queries, which those who answer them count
}

// paths are the daemon's own files.
type paths struct {
	host  hostdns.Paths
	run   string // the runtime directory
	ready string // exists while we answer
	bus   string // keeps what was set over D-Bus for the next start
	// history keeps which servers were asked, for that too.
	history string
	terms   string // says how to listen while port 53 changes hands (dnsserver.TermsFile)
	// kubeconfig is used where the configuration names none. snapshot keeps the state of the cluster: in a directory of
	// the daemon's own, as /var/lib/node-dns is the privileged half's.
	kubeconfig, snapshot string
	// fromCluster keeps what the cluster configures of its own DNS, likewise.
	fromCluster string
}

func newPaths(c Config) paths {
	run := filepath.Join("/", c.Root, "/run/node-dns")
	return paths{
		host:    hostdns.NewPaths(c.Root),
		run:     run,
		ready:   filepath.Join(run, "ready"),
		bus:     filepath.Join(run, "dbus.json"),
		history: filepath.Join(run, "servers.json"),
		terms:   filepath.Join("/", c.Root, dnsserver.TermsFile),

		kubeconfig:  filepath.Join("/", c.Root, "/etc/node-dns/kubeconfig"),
		fromCluster: filepath.Join("/", c.Root, "/var/cache/node-dns/from-cluster.json"),
		snapshot:    filepath.Join("/", c.Root, "/var/cache/node-dns/cluster.snapshot"),
	}
}

// policy is the one in force; nil before the first look.
func (d *Daemon) policy() *policy.Policy {
	if d.resolver == nil {
		return nil
	}
	return d.resolver.Policy()
}

// localRoom is how many queries may be handled beside those that wait for upstreams: what is answered from memory is not
// shed where upstreams are dead.
const localRoom = 2000

// busChange is a state that was set over D-Bus, on its way to the goroutine that changes what is served.
type busChange struct {
	state dbusapi.State
	done  chan error
}

// reloading is an order to read the configuration again.
type reloading struct {
	by   string
	done chan error
}

// memory is what this process may take.
type memory struct {
	own   int64        // what GOMEMLIMIT says; math.MaxInt64: nothing
	limit atomic.Int64 // Go's, as it is; 0: none
	short bool         // the cache has less room than it wants, as the log says; belongs to watchMemory
}

// A hint is why something may have changed.
type hint struct {
	reason string
	at     time.Time
}

// hint says that something may have changed. It never blocks: one hint that waits stands for all that come after.
func (d *Daemon) hint(reason string) {
	d.lastHint.Store(&hint{reason, time.Now()})
	select {
	case d.hints <- reason:
	default:
	}
}

// tell wakes the task that receives from a channel with room for one. It never blocks: one message that waits stands for all.
func tell(task chan struct{}) {
	select {
	case task <- struct{}{}:
	default:
	}
}

// suspect has the upstreams probed for loops soon.
func (d *Daemon) suspect() { tell(d.suspects) }

// busChanged has those told who listen, and has the names looked at.
func (d *Daemon) busChanged() {
	if d.bus != nil {
		d.bus.Changed()
	}
}
