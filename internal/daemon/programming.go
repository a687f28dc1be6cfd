package daemon

import (
	"sync"

	"github.com/node-dns/node-dns/internal/cluster"
	"github.com/node-dns/node-dns/internal/metrics"
)

// programmingCount counts how long changes of the cluster took to be answered. It is safe for concurrent use.
type programmingCount struct {
	mu    sync.Mutex // guards count
	count metrics.Programming
}

// add is cluster.Config.Programmed.
func (c *programmingCount) add(change cluster.Programmed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case change.Outcome == cluster.Future:
		c.count.Future += change.Slices
	case change.Outcome == cluster.Past:
		c.count.Past += change.Slices
	case change.Outcome == cluster.Many:
		c.count.Many += change.Slices
	case change.Headless:
		c.count.Headless.Add(change.Took)
	default:
		c.count.ClusterIP.Add(change.Took)
	}
}

func (c *programmingCount) read() metrics.Programming {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}
