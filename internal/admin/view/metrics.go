package view

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/nm"
)

// Metrics holds the Prometheus metrics that no other part counts, and the address where they are
// served.
type Metrics struct {
	state   atomic.Pointer[control.Metrics] // never nil
	changed chan struct{}                   // wakes ServeMetrics after the address may have changed

	Config      configCount
	Health      healthCount
	Events      *wordCount // events of NetworkManager
	Requests    *wordCount // requests to write the host's files, and writes of the hook without a request
	Programming programmingCount
	Requested   requestCount
}

// HookReason is the reason for files that the hook writes without a request.
const HookReason = "hook"

func NewMetricsState() *Metrics {
	m := &Metrics{
		changed: make(chan struct{}, 1),
		Events: newWordCount(map[string]string{
			nm.ReasonConnected: "connected", nm.ReasonDNSChanged: "dns-changed", nm.ReasonStarted: "started", nm.ReasonStopped: "stopped",
		}),
		Requests: newWordCount(map[string]string{
			"file": "file", "NetworkManager": "networkmanager", "kernel": "kernel", "start": "start", "time": "time", "again": "again",
			"status": "status", "reload": "reload", "loop probe": "loop", HookReason: "hook",
		}),
	}
	m.state.Store(&control.Metrics{})
	return m
}

// Sample returns the values of all metrics.
func (v *View) Sample() Sample {
	return Sample{
		Status:   v.Status(),
		Revision: v.config.Revision,
		Traffic:  v.server.Traffic(),
		Server:   v.server.Stats(),
		Cache:    v.resolver.Cache().Stats(),
		Forward:  v.resolver.Forward().Stats(),
		Routes:   v.resolver.Forward().Status(),
		Config:   v.Metrics.Config.read(),

		Events: v.Metrics.Events.Read(), Requests: v.Metrics.Requests.Read(),
		SearchNXDomain: v.resolver.Absent(), Health: v.Metrics.Health.read(),
		Troubled:    v.troubles.troubledClients(time.Now(), v.podOfAddr),
		Programming: v.Metrics.Programming.read(), APIRequests: v.Metrics.Requested.read(),
	}
}

// wordCount counts events by word, for a fixed set of words. It is safe for concurrent use.
type wordCount struct {
	words map[string]string // maps the text before the first colon of an event to its word
	mu    sync.Mutex        // guards count
	count map[string]uint64
}

func newWordCount(words map[string]string) *wordCount {
	c := &wordCount{words: words, count: map[string]uint64{}}
	for _, word := range words {
		c.count[word] = 0
	}
	return c
}

// Add counts one event. An event without a word counts as "other".
func (c *wordCount) Add(what string) {
	before, _, _ := strings.Cut(what, ":")
	word, ok := c.words[before]
	if !ok {
		word = "other"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[word]++
}

func (c *wordCount) Read() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

// guarded is a value for concurrent use.
type guarded[T any] struct {
	mu    sync.Mutex // guards value
	value T
}

func (g *guarded[T]) change(f func(*T)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.value)
}

func (g *guarded[T]) read() T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.value
}

// configCount records when and how the configuration files took effect.
type configCount struct{ guarded[ConfigSample] }

// Take records that the configuration took effect.
func (c *configCount) Take(now time.Time) { c.change(func(s *ConfigSample) { s.Taken = now }) }

// Look records the result of reading the files. An error counts once until it changes.
func (c *configCount) Look(err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	c.change(func(s *ConfigSample) {
		if fault != "" && fault != s.Fault {
			s.Failed++
		}
		s.Fault = fault
	})
}

// healthCount measures the watchdog's checks.
type healthCount struct{ guarded[HealthSample] }

// Timed returns check with its duration recorded.
func (c *healthCount) Timed(check func(context.Context, time.Duration) error) func(context.Context, time.Duration) error {
	return func(ctx context.Context, limit time.Duration) error {
		begin := time.Now()
		err := check(ctx, limit)
		c.change(func(s *HealthSample) {
			s.Durations.Add(time.Since(begin), 1)
			if err != nil {
				s.Failures++
			}
		})
		return err
	}
}

// programmingCount measures how long changes of the cluster took to be answered.
type programmingCount struct{ guarded[Programming] }

// Add is the callback cluster.Config.Programmed.
func (c *programmingCount) Add(change cluster.Programmed) {
	c.change(func(s *Programming) {
		switch {
		case change.Outcome == cluster.Future:
			s.Future += change.Slices
		case change.Outcome == cluster.Past:
			s.Past += change.Slices
		case change.Outcome == cluster.Many:
			s.Many += change.Slices
		case change.Headless:
			s.Headless.Add(change.Took)
		default:
			s.ClusterIP.Add(change.Took)
		}
	})
}

// maxRequests limits the number of request kinds, in addition to one for all others. An API server
// may answer with 500 different codes, and kubeconfigs may name one server after another.
const maxRequests = 100

// requestCount counts requests to the Kubernetes API. It is safe for concurrent use.
type requestCount struct {
	mu    sync.Mutex            // guards count
	count map[APIRequest]uint64 // nil if there are no requests yet
}

// Add is the callback cluster.Config.Requested.
func (c *requestCount) Add(r cluster.Request) {
	of := APIRequest{Code: codeWord(r.Code), Method: r.Method, Host: strings.ToValidUTF8(r.Host, "\uFFFD")}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[APIRequest]uint64{}
	}
	if _, known := c.count[of]; !known && len(c.count) >= maxRequests {
		of = APIRequest{Code: "other", Method: "other", Host: "other"}
	}
	c.count[of]++
}

// codeWord formats an HTTP status code like the metrics of the Kubernetes libraries.
func codeWord(code int) string {
	switch {
	case code == 0:
		return "<error>"
	case code < 100 || code > 599:
		return "other"
	}
	return strconv.Itoa(code)
}

func (c *requestCount) read() map[APIRequest]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}
