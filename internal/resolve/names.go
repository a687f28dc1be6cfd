package resolve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// clusterNames holds the resolver of the cluster's names, and hands it what the API said. The zero value has none.
type clusterNames struct {
	resolver atomic.Pointer[zone.Resolver] // nil: the API is not watched

	mu       sync.Mutex // guards what follows, and that the resolver has it
	of       string     // the kubeconfig of the cluster that is spoken of
	snapshot *zone.Snapshot
	reason   error         // why there is no snapshot; nil: nobody said
	heard    chan struct{} // closed by the first word of it; nil: there was one, or nobody is to say any
}

// replace has r answer from now on, by what is known of the cluster; nil: nobody does. Under another kubeconfig that is
// another cluster's, and forgotten. begin puts r in force: no snapshot comes between that and r's own.
func (c *clusterNames) replace(r *zone.Resolver, kubeconfig string, begin func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != kubeconfig {
		c.hearLocked() // who waits for word of the other one is answered by this one
		c.of, c.snapshot, c.reason = kubeconfig, nil, nil
		if kubeconfig != "" {
			c.heard = make(chan struct{})
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

// publish takes what the watcher of that kubeconfig knows. One that has been replaced may still be at work.
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
	c.hearLocked()
}

func (c *clusterNames) hearLocked() {
	if c.heard != nil {
		close(c.heard)
		c.heard = nil
	}
}

// firstWord is how long a query waits until it is known whether an earlier run has left its state of the cluster: reading
// that takes 0.1 s for 10,000 services.
const firstWord = time.Second

// await waits until something is known of the cluster, or why there is nothing.
func (c *clusterNames) await(ctx context.Context) {
	if c.known() != nil {
		return
	}
	c.mu.Lock()
	heard := c.heard
	c.mu.Unlock()
	if heard == nil {
		return
	}
	timer := time.NewTimer(firstWord)
	defer timer.Stop()
	select {
	case <-heard:
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
	c.hearLocked()
}

// known is what answers are made from; nil: nothing is known of the cluster.
func (c *clusterNames) known() *zone.Snapshot {
	if r := c.resolver.Load(); r != nil {
		return r.Snapshot()
	}
	return nil
}
