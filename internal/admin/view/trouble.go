package view

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/metrics"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/sys/sketch"
)

const (
	// troubleRate bounds the queries that are recorded in a second. Where more are slow or fail, these are a sample.
	troubleRate = 100
	// troubleKeys bounds the names, and the clients, that are recorded: 50 KB.
	troubleKeys = 100
	// troubleFor is how long a name or a client is recorded after it was the last time.
	troubleFor = 10 * time.Minute
	// shownNames are the slow names that the status has, and shownClients the clients that the metrics have.
	shownNames, shownClients = 10, 10
)

// troubles records which names were slow recently, and which clients had slow or failed answers. It is told of no hit. Its memory is bounded.
// Its methods may be called concurrently.
type troubles struct {
	window perSecond

	mu      sync.Mutex // guards what follows
	names   *sketch.Sketch[slowName]
	clients *sketch.Sketch[troubledClient]
}

type slowName struct {
	count uint64
	worst time.Duration
	last  slowQuery
}

// slowQuery is what is shown of one query.
type slowQuery struct {
	qtype, rcode, by, why string
	client                netip.Addr
	took                  time.Duration
	at                    time.Time
}

type troubledClient struct {
	slow, failed float64
	at           time.Time
}

func newTroubles() *troubles {
	return &troubles{names: sketch.New[slowName](troubleKeys), clients: sketch.New[troubledClient](troubleKeys)}
}

// Trouble is dnsserver.Config's: it records a query that was slow or failed.
func (v *View) Trouble(seen dnsserver.Seen) {
	now := time.Now()
	if !v.troubles.window.take(now.Unix(), troubleRate) {
		return
	}
	rcode, sent := seenRcode(&seen)
	q := slowQuery{qtype: seenType(&seen), by: v.by(&seen), why: seen.Why, client: seen.Client.Addr().Unmap(), took: seen.Took, at: now}
	if sent {
		q.rcode = rcodeWord(rcode)
	}
	if seen.Outcome == dnsserver.ByUpstream {
		q.by = seen.Server.String()
	}
	v.troubles.add(seenName(&seen), q, seen.IsFailed())
}

func (t *troubles) add(name string, q slowQuery, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients.Add(q.client.String(), 1)
	c.at = q.at
	if failed {
		c.failed++
	}
	if q.took < dnsserver.SlowAfter || name == "" {
		return
	}
	c.slow++
	n := t.names.Add(name, 1)
	n.count, n.worst, n.last = n.count+1, max(n.worst, q.took), q
}

// forgetLocked forgets what is too long ago.
func (t *troubles) forgetLocked(now time.Time) {
	t.names.Drop(func(n slowName) bool { return now.Sub(n.last.at) > troubleFor })
	t.clients.Drop(func(c troubledClient) bool { return now.Sub(c.at) > troubleFor })
}

// SlowNames are all that were slow recently.
func (v *View) SlowNames(context.Context) control.SlowNames {
	now := time.Now()
	return control.SlowNames{
		APIVersion: control.APIVersion, Kind: "SlowNames", Now: now, Names: v.troubles.slowNames(now, troubleKeys, v.podAt),
		Routes: routeStatus(v.policy(), v.resolver.Forward().Status()),
	}
}

// slowNames are those that took longest, the worst first, and so many at most. podOf names the clients.
func (t *troubles) slowNames(now time.Time, most int, podOf func(netip.Addr) string) []control.SlowName {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(now)
	all := []control.SlowName{}
	for name, e := range t.names.Entries {
		n := e.Details
		all = append(all, control.SlowName{
			Name: name, Type: n.last.qtype, Count: n.count, Worst: n.worst, Took: n.last.took, At: n.last.at, Rcode: n.last.rcode, By: n.last.by, Why: n.last.why,
			Client: n.last.client.String(), Pod: podOf(n.last.client),
		})
	}
	slices.SortFunc(all, func(a, b control.SlowName) int {
		return cmp.Or(cmp.Compare(b.Worst, a.Worst), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), most)]
}

// troubledClients are those that had most, the most first. podOf names them.
func (t *troubles) troubledClients(now time.Time, podOf func(netip.Addr) string) []metrics.TroubledClient {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(now)
	all := []metrics.TroubledClient{}
	for client, e := range t.clients.Entries {
		addr, _ := netip.ParseAddr(client) // the zero one has no pod
		all = append(all, metrics.TroubledClient{Client: client, Pod: podOf(addr), Slow: e.Details.slow, Failed: e.Details.failed})
	}
	slices.SortFunc(all, func(a, b metrics.TroubledClient) int {
		return cmp.Or(cmp.Compare(b.Slow+b.Failed, a.Slow+a.Failed), cmp.Compare(a.Client, b.Client))
	})
	return all[:min(len(all), shownClients)]
}
