// Package view shows what a daemon is and does: its status, its counters, the history of its routes, and its answers to an admin's
// questions.
//
// It changes nothing but what is shown, and the cache where an admin flushes it.
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
	"github.com/node-dns/node-dns/internal/sys/selinux"
)

// Config is what a View is made of. All fields but Revision and ConfigFile are required.
type Config struct {
	Version, Revision string
	ConfigFile        string // in the place of the usual one; "": that one
	Root              string
	Log               *slog.Logger
	Panics            *journal.Panics
	Bus               func(*policy.Policy) *control.Bus // nil: none is shown
	SocketsNote       func() string                     // about the sockets that the service manager holds; "": nothing
	MemoryLimit       func() int64                      // of the heap, in octets; 0: none
}

// View shows what a daemon is and does, and keeps what it shows of the past. Show must have been called before anything is shown.
type View struct {
	config  Config
	Log     *slog.Logger // those who watch are told of its lines too
	Plain   *slog.Logger // they are not told of these
	started time.Time
	paths   hostdns.Paths
	selinux selinux.Kernel
	context string // of SELinux, at the start; "": not known

	resolver *resolve.Resolver               // nil before Show
	server   *dnsserver.Server               // likewise
	Watcher  atomic.Pointer[cluster.Watcher] // nil: the API is not watched
	Host     atomic.Pointer[Host]            // nil before the first look
	Problems atomic.Pointer[[]string]        // sorted, each once; never nil

	minute   LastMinute
	History  history
	Metrics  *Metrics
	Hub      Hub // those who watch what goes on
	queryLog queryLog

	crowder, stranger met // of dnsserver.Stats
	troubles          *troubles
}

// New returns a View of a daemon that begins now.
func New(c Config) *View {
	v := &View{
		config: c, started: time.Now(), paths: hostdns.NewPaths(c.Root),
		selinux: selinux.Find(c.Root), context: selinux.OwnContext(c.Root), Metrics: NewMetricsState(), troubles: newTroubles(),
	}
	v.Plain, v.Log = c.Log, slog.New(v.Hub.Tee(c.Log.Handler()))
	v.Hub.Watched = v.watchQueries
	v.queryLog.changed = make(chan struct{}, 1)
	v.Problems.Store(&[]string{})
	return v
}

// Show says whose queries and answers are shown.
func (v *View) Show(r *resolve.Resolver, s *dnsserver.Server) { v.resolver, v.server = r, s }

func (v *View) policy() *policy.Policy { return v.resolver.Policy() }
