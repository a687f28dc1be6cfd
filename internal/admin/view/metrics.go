package view

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/metrics"
	"github.com/node-dns/node-dns/internal/nm"
)

// Metrics is what is shown to Prometheus beside what the other parts know, and where.
type Metrics struct {
	state   atomic.Pointer[control.Metrics] // never nil, nor what it holds
	changed chan struct{}                   // where they are to be shown may have changed

	Config      configCount
	Health      healthCount
	Events      *wordCount // of NetworkManager
	Requests    *wordCount // for the host's files, and what the hook writes by itself
	Programming programmingCount
	Requested   requestCount
}

// HookReason is for what the hook writes without being asked.
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

// Sample is all that is shown.
func (v *View) Sample() metrics.Sample {
	return metrics.Sample{
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
		Troubled:    v.troubles.troubledClients(time.Now(), v.podAt),
		Programming: v.Metrics.Programming.read(), APIRequests: v.Metrics.Requested.read(),
	}
}

// wordCount counts what has one of a few words. It is safe for concurrent use.
type wordCount struct {
	words map[string]string // what is counted under which word, by what stands before a colon in it
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

// Add counts one; what has no word is "other".
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

// configCount says how the configuration files came to be in force. It is safe for concurrent use.
type configCount struct {
	mu     sync.Mutex // guards what follows
	taken  time.Time
	fault  string // of what the files say now; "": there is none
	failed uint64
}

// Take is called when what the files say is taken over.
func (c *configCount) Take(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = now
}

// Look is called with what is wrong with the files at each look. A fault counts once for as long as it stands.
func (c *configCount) Look(err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if fault != "" && fault != c.fault {
		c.failed++
	}
	c.fault = fault
}

func (c *configCount) read() metrics.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return metrics.Config{Taken: c.taken, Good: c.fault == "", Failed: c.failed}
}

// healthCount times the watchdog's rounds. It is safe for concurrent use.
type healthCount struct {
	mu     sync.Mutex // guards health
	health metrics.Health
}

// Timed is check, with its time taken.
func (c *healthCount) Timed(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		begin := time.Now()
		err := check(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.health.Durations.Add(time.Since(begin), 1)
		if err != nil {
			c.health.Failures++
		}
		return err
	}
}

func (c *healthCount) read() metrics.Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}
