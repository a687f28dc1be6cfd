// Package cluster watches the Kubernetes API and builds the zone.Snapshot that cluster names are
// answered from.
//
// Package kubewire decodes the bytes and package zone answers queries. This package decides what to
// request, how often, and which state holds when the server does not answer, loses its history, or
// is restored from a backup. It is designed for 5,000 nodes that do the same at the same time:
// lists come from the server's cache, at random times and compressed with gzip; a watch resumes
// where it stopped; and only objects that DNS needs are requested.
package cluster

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// Features select objects to watch besides Services, namespaces and endpoints.
type Features struct {
	NodePods bool // the Pods of this node, for autopath
	AllPods  bool // every Pod, for `pods verified`
	NodeZone bool // the topology zone of this node
	Settings bool // the cluster's own DNS configuration: see Config.Settings
	PodNames bool // the names of the Pods behind endpoints; they take as much memory as everything else about endpoints
}

// Config configures a Watcher.
type Config struct {
	Kubeconfig string // path of the file
	// Contents replace the file, which is then not read. They must not name other files. Nil means
	// that the file is read.
	Contents []byte
	Features Features
	NodeName string // as in the API; if empty, neither the node's Pods nor its zone are watched
	Version  string // for the User-Agent

	// SnapshotFile keeps the last known state for the next start. Its directory must exist. If
	// empty, no state is kept.
	SnapshotFile string
	// SnapshotMaxAge bounds the age of a state that is read from SnapshotFile. 0 means no bound.
	SnapshotMaxAge time.Duration

	// Publish gets each new state of the cluster, starting with the first complete one or the one
	// in SnapshotFile. One goroutine calls it and waits for it.
	Publish func(snapshot *zone.Snapshot)
	// Unready gets the reason why there is no state yet, for display. It is called after
	// SnapshotFile turned out to have no usable state, and each time the reason changes. Nil
	// disables it.
	Unready func(reason error)
	// Programmed gets each change that a watch reported, right after Publish, from the same
	// goroutine. Objects of a list are not changes, because their age is unknown. Nil disables it.
	Programmed func(change Programmed)
	// Settings gets the cluster's own DNS configuration each time it changes, if Features.Settings
	// is set. Calls do not overlap, and the watch waits for them. Nil disables it.
	Settings func(settings Settings)
	// KnownSettings are earlier settings. Their Objects hold until the API reports others.
	KnownSettings Settings
	// Requested is called for each request to the API server, after its response or its failure. It
	// is called concurrently. Nil disables it.
	Requested func(request Request)

	Log *slog.Logger // nil: silent
	// Panics counts panics of the watch, which then restarts. Nil means that they are not counted.
	Panics *journal.Panics

	// LookEvery is the interval between checks of the kubeconfig's files; 0: two seconds.
	LookEvery time.Duration
	// CompareEvery is the average interval between fresh lists that are compared with what the
	// watches reported. 0 means an hour.
	CompareEvery time.Duration
	// Lookup returns the addresses of the API server's host. If nil, Dial gets the host name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to one address of the API server. It is called concurrently. Nil means a
	// net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Chance returns a number in [0, 1). It is called concurrently. Nil means a random number.
	Chance func() float64

	race *racer // set by New
}

// Request is one request to the API server and its result.
type Request struct {
	Method, Host string // GET or POST; the host in the kubeconfig
	Code         int    // HTTP status; 0 means no response
}

// Watcher keeps the state of the cluster. Its methods may be called concurrently.
type Watcher struct {
	config Config
	log    *slog.Logger
	made   time.Time
	state  atomic.Pointer[State]
	latest atomic.Pointer[zone.Snapshot] // nil before the first publication

	unwritten atomic.Bool // the last state could not be saved

	settings *settings // nil if settings are not watched
}

// New returns a Watcher that is not running yet.
func New(config Config) *Watcher {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Panics == nil {
		config.Panics = new(journal.Panics)
	}
	config.race = &racer{lookup: config.Lookup, dial: config.Dial}
	w := &Watcher{config: config, log: config.Log, made: time.Now()}
	if w.config.LookEvery == 0 {
		w.config.LookEvery = 2 * time.Second
	}
	if w.config.CompareEvery == 0 {
		w.config.CompareEvery = time.Hour
	}
	if w.config.Chance == nil {
		w.config.Chance = rand.Float64
	}
	if w.config.Unready == nil {
		w.config.Unready = func(error) {}
	}
	if w.config.Features.Settings && w.config.Settings != nil {
		w.settings = newSettings(config.KnownSettings, config.Settings)
	}
	w.state.Store(&State{Phase: Connecting, Since: w.made, Kubeconfig: config.Kubeconfig})
	return w
}

// State returns the current state of the watch itself.
func (w *Watcher) State() State { return *w.state.Load() }
