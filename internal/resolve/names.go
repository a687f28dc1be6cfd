package resolve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// clusterNames holds the resolver for cluster names and passes it the API's data. The zero value
// has no resolver.
type clusterNames struct {
	resolver atomic.Pointer[zone.Resolver] // nil if the API is not watched

	mu       sync.Mutex // guards the fields below, and their transfer to the resolver
	of       string     // kubeconfig of the watched cluster
	snapshot *zone.Snapshot
	reason   error         // why there is no snapshot; nil if not reported
	reported chan struct{} // closed at the first report; nil after it, or if no report will come
}

// replace makes r the resolver, with what is known about the cluster; nil disables it. Another
// kubeconfig means another cluster, so the old data is dropped. begin puts r into effect; no other
// snapshot can be set between that and r's own.
func (c *clusterNames) replace(r *zone.Resolver, kubeconfig string, begin func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != kubeconfig {
		c.signalReportedLocked() // queries that wait for the old cluster continue with the new one
		c.of, c.snapshot, c.reason = kubeconfig, nil, nil
		if kubeconfig != "" {
			c.reported = make(chan struct{})
		}
	}
	if r != nil && c.snapshot != nil {
		r.Set(c.snapshot)
	}
	if r != nil && c.reason != nil {
		r.Unready(c.reason)
	}
	begin()
	c.resolver.Store(r)
}

// publish sets the snapshot of the watcher for that kubeconfig. A watcher that was replaced may
// still call it.
func (c *clusterNames) publish(kubeconfig string, s *zone.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != kubeconfig {
		return
	}
	c.snapshot = s
	if r := c.resolver.Load(); r != nil {
		r.Set(s)
	}
	c.signalReportedLocked()
}

func (c *clusterNames) signalReportedLocked() {
	if c.reported != nil {
		close(c.reported)
		c.reported = nil
	}
}

// maxSnapshotWait is the maximum time that a query waits for the snapshot of an earlier run, which
// takes 0.1 s to read with 10,000 services, and more than 1 s on a node where every service starts
// at once. It is below the 5 s after which glibc retries (resolv.conf(5), timeout): SERVFAIL would
// end that client's attempt.
const maxSnapshotWait = 4500 * time.Millisecond

// await waits until a snapshot, or the reason why there is none, is known.
func (c *clusterNames) await(ctx context.Context) {
	if c.known() != nil {
		return
	}
	c.mu.Lock()
	reported := c.reported
	c.mu.Unlock()
	if reported == nil {
		return
	}
	timer := time.NewTimer(maxSnapshotWait)
	defer timer.Stop()
	select {
	case <-reported:
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (c *clusterNames) unready(kubeconfig string, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != kubeconfig {
		return
	}
	c.reason = reason
	if r := c.resolver.Load(); r != nil {
		r.Unready(reason)
	}
	c.signalReportedLocked()
}

// known returns the snapshot for answers, or nil if nothing is known about the cluster.
func (c *clusterNames) known() *zone.Snapshot {
	if r := c.resolver.Load(); r != nil {
		return r.Snapshot()
	}
	return nil
}
