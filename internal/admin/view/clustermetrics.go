package view

import (
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/node-dns/node-dns/internal/admin/metrics"
	"github.com/node-dns/node-dns/internal/kube/cluster"
)

// programmingCount measures how long changes of the cluster took to be answered. It is safe for
// concurrent use.
type programmingCount struct {
	mu    sync.Mutex // guards count
	count metrics.Programming
}

// Add is the callback cluster.Config.Programmed.
func (c *programmingCount) Add(change cluster.Programmed) {
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

// maxRequests limits the number of request kinds, in addition to one for all others. An API server
// may answer with 500 different codes, and kubeconfigs may name one server after another.
const maxRequests = 100

// requestCount counts requests to the Kubernetes API. It is safe for concurrent use.
type requestCount struct {
	mu    sync.Mutex                    // guards count
	count map[metrics.APIRequest]uint64 // nil if there are no requests yet
}

// Add is the callback cluster.Config.Requested.
func (c *requestCount) Add(r cluster.Request) {
	of := metrics.APIRequest{Code: codeWord(r.Code), Method: r.Method, Host: strings.ToValidUTF8(r.Host, "\uFFFD")}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[metrics.APIRequest]uint64{}
	}
	if _, known := c.count[of]; !known && len(c.count) >= maxRequests {
		of = metrics.APIRequest{Code: "other", Method: "other", Host: "other"}
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

func (c *requestCount) read() map[metrics.APIRequest]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}
