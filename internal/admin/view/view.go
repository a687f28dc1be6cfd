// Package view shows the state of a daemon: its status, its counters, the history of its routes,
// and its answers to an admin's questions. It exports the counters to Prometheus, with health and
// readiness checks.
//
// It changes only what it shows, and the cache when an admin flushes it. The other parts count
// while they work, and each scrape reads their counters. Scrapers may connect over the network, so
// they get numbers, but no queried names and no paths.
package view

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolve"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// Config holds the inputs of a View. All fields but Revision and ConfigFile are required.
type Config struct {
	Version, Revision string
	ConfigFile        string // configuration file; empty for the default path
	Root              string
	Log               *slog.Logger
	Panics            *journal.Panics
	Bus               func(*policy.Policy) *control.Bus // returns nil if there is no bus to show
	SocketsNote       func() string                     // note about the sockets that the service manager holds; may return ""
	MemoryLimit       func() int64                      // limit of the heap in bytes; 0 if there is none
}

// View shows the state of a daemon and keeps the history that it shows. Show must be called before
// anything else.
type View struct {
	config  Config
	Log     *slog.Logger // also sends its records to watchers
	Plain   *slog.Logger // does not send its records to watchers
	started time.Time
	paths   hostdns.Paths
	selinux procfs.SELinux
	context string // SELinux context at the start; empty if unknown

	resolver *resolve.Resolver               // nil before Show
	server   *dnsserver.Server               // nil before Show
	Watcher  atomic.Pointer[cluster.Watcher] // nil if the API is not watched
	Host     atomic.Pointer[Host]            // nil before the first inspection
	Problems atomic.Pointer[[]string]        // sorted and without duplicates; never nil
	Failing  atomic.Pointer[[]string]        // end-to-end questions that fail; never nil

	redirected atomic.Pointer[[]control.Intercepted] // whether Cilium redirects the addresses of Policy.Redirected; never nil

	minute   LastMinute
	History  history
	Metrics  *Metrics
	Hub      Hub // watchers of queries and changes
	queryLog queryLog

	crowder, stranger met // from dnsserver.Stats
	troubles          *troubles
	failures          *failures
}

// New returns a View of a daemon that starts now.
func New(c Config) *View {
	v := &View{
		config: c, started: time.Now(), paths: hostdns.NewPaths(c.Root),
		selinux: procfs.FindSELinux(c.Root), context: procfs.OwnSELinuxContext(c.Root), Metrics: NewMetricsState(), troubles: newTroubles(), failures: newFailures(),
	}
	v.Plain, v.Log = c.Log, slog.New(v.Hub.Tee(c.Log.Handler()))
	v.Hub.Watched = v.watchQueries
	v.queryLog.changed = make(chan struct{}, 1)
	v.Problems.Store(&[]string{})
	v.Failing.Store(&[]string{})
	v.redirected.Store(&[]control.Intercepted{})
	return v
}

// Show sets the resolver and the server to show.
func (v *View) Show(r *resolve.Resolver, s *dnsserver.Server) { v.resolver, v.server = r, s }

func (v *View) policy() *policy.Policy { return v.resolver.Policy() }
