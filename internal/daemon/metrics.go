package daemon

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

// metricsState is what is shown to Prometheus beside what the other parts know, and where.
type metricsState struct {
	state   atomic.Pointer[control.Metrics] // never nil, nor what it holds
	changed chan struct{}                   // where they are to be shown may have changed

	config      configCount
	health      healthCount
	events      *wordCount // of NetworkManager
	requests    *wordCount // for the host's files, and what the hook writes by itself
	programming programmingCount
	requested   requestCount
}

// hookReason is for what the hook writes without being asked.
const hookReason = "hook"

func newMetricsState() *metricsState {
	m := &metricsState{
		changed: make(chan struct{}, 1),
		events: newWordCount(map[string]string{
			nm.ReasonConnected: "connected", nm.ReasonDNSChanged: "dns-changed", nm.ReasonStarted: "started", nm.ReasonStopped: "stopped",
		}),
		requests: newWordCount(map[string]string{
			"file": "file", "NetworkManager": "networkmanager", "kernel": "kernel", startReason: "start", "time": "time", "again": "again",
			"status": "status", "reload": "reload", "loop probe": "loop", hookReason: "hook",
		}),
	}
	m.state.Store(&control.Metrics{})
	return m
}

// sample is all that is shown.
func (d *Daemon) sample() metrics.Sample {
	return metrics.Sample{
		Status:   d.Status(),
		Revision: d.config.Revision,
		Traffic:  d.server.Traffic(),
		Server:   d.server.Stats(),
		Cache:    d.resolver.Cache().Stats(),
		Forward:  d.resolver.Forward().Stats(),
		Routes:   d.resolver.Forward().Status(),
		Config:   d.metrics.config.read(),

		Events: d.metrics.events.read(), Requests: d.metrics.requests.read(),
		SearchNXDomain: d.resolver.Absent(), Health: d.metrics.health.read(),
		Programming: d.metrics.programming.read(), APIRequests: d.metrics.requested.read(),
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

// add counts one; what has no word is "other".
func (c *wordCount) add(what string) {
	before, _, _ := strings.Cut(what, ":")
	word, ok := c.words[before]
	if !ok {
		word = "other"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[word]++
}

func (c *wordCount) read() map[string]uint64 {
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

// take is called when what the files say is taken over.
func (c *configCount) take(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = now
}

// look is called with what is wrong with the files at each look. A fault counts once for as long as it stands.
func (c *configCount) look(err error) {
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

// timed is check, with its time taken.
func (c *healthCount) timed(check func(context.Context) error) func(context.Context) error {
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
