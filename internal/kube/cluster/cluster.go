// Package cluster watches the Kubernetes API, and makes of it the zone.Snapshot that cluster names are answered from.
//
// It is apart from kubewire, which reads the bytes, and from zone, which answers: here is decided what is asked for,
// how often, and what holds when the server does not answer, forgets, or has been restored from a backup. Everything is
// made for 5,000 nodes that do the same at the same time: lists come from the server's cache, spread by chance and
// packed by gzip; a watch goes on from where it was; and only what DNS needs is asked for.
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

// Features say what is known besides Services, namespaces and endpoints.
type Features struct {
	NodePods bool // the Pods of this node, for autopath
	AllPods  bool // every Pod, for `pods verified`
	NodeZone bool // the topology zone of this node
	Settings bool // what the cluster configures of its own DNS: see Config.Settings
	PodNames bool // the names of the Pods behind endpoints, which take as much memory as all that is known of these else
}

// Config says what a Watcher watches.
type Config struct {
	Kubeconfig string // the path of the file
	// Contents stand in for those of the file, which is not read then, and name no other file. Nil: the file is read.
	Contents []byte
	Features Features
	NodeName string // as the API has it; "": neither its Pods nor its zone are watched
	Version  string // for the User-Agent

	// SnapshotFile keeps the last known state for the next start; its directory must exist. "": none is kept.
	SnapshotFile string
	// SnapshotMaxAge is how old what the SnapshotFile has may be. 0: no bound.
	SnapshotMaxAge time.Duration

	// Publish gets each new state of the cluster: from when it is whole for the first time, or from the SnapshotFile. It
	// is called by one goroutine, and holds it up.
	Publish func(snapshot *zone.Snapshot)
	// Unready gets why there is no state yet, in words for people: when it is known that the SnapshotFile has none, and
	// each time the reason changes. Nil: nobody asks.
	Unready func(reason error)
	// Programmed gets each change that a watch told of, right after Publish has had it, from the same goroutine. What a list has
	// is none: nobody knows how long it has been there. Nil: nobody asks.
	Programmed func(change Programmed)
	// Settings is called with what the cluster configures of its own DNS each time that changes, if Features.Settings is set. Calls do not
	// overlap, and the watch waits for them. Nil disables it.
	Settings func(settings Settings)
	// KnownSettings are earlier ones, whose Objects hold until the API says something else.
	KnownSettings Settings
	// Requested gets each request to the API server, when there is an answer to it or when it has failed. It is called
	// concurrently. Nil: nobody asks.
	Requested func(request Request)

	Log *slog.Logger // nil: silent
	// Panics counts those of the watching, which is tried again. Nil: nobody asks.
	Panics *journal.Panics

	// CompareEvery is how often a fresh list is compared with what the watches have told. 0: an hour.
	CompareEvery time.Duration
	// Lookup returns the addresses of the API server's host. Nil: Dial gets the host's name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to one address of the API server. It is called concurrently. Nil: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Chance returns a number from 0 to below 1. It is called concurrently. Nil: a random one.
	Chance func() float64

	race *racer // made by New
}

// Request is one to the API server, and how it went.
type Request struct {
	Method, Host string // GET or POST; what the kubeconfig has
	Code         int    // of HTTP; 0: there was no answer
}

// Watcher keeps the state of the cluster. Its methods may be called concurrently.
type Watcher struct {
	config Config
	log    *slog.Logger
	made   time.Time
	state  atomic.Pointer[State]
	latest atomic.Pointer[zone.Snapshot] // nil: nothing has been published

	settings *settings // nil: they are not watched
}

// New returns a Watcher that does nothing yet.
func New(config Config) *Watcher {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Panics == nil {
		config.Panics = new(journal.Panics)
	}
	config.race = &racer{lookup: config.Lookup, dial: config.Dial}
	w := &Watcher{config: config, log: config.Log, made: time.Now()}
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

// State returns the present state of the watching itself.
func (w *Watcher) State() State { return *w.state.Load() }
