package view

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/sys/stats"
)

const (
	// troubleRate is the maximum number of queries recorded per second. If more are slow or fail,
	// the recorded ones are a sample.
	troubleRate = 100
	// troubleKeys limits the recorded names (with types) and clients, which take 100 KB.
	troubleKeys = 100
	// troubleMinutes is the number of minutes that count, including the current one.
	troubleMinutes = 10
	// shownNames and shownClients limit the slow names in the status and the clients in the
	// metrics.
	shownNames, shownClients = 10, 10
)

// troubles records recently slow names, and clients with slow or failed answers. It gets no cache
// hits. Its memory is bounded. The methods are safe for concurrent use.
type troubles struct {
	window perSecond

	mu      sync.Mutex // guards the fields below
	names   *stats.Sketch[slowName]
	clients *stats.Sketch[troubledClient]
}

// slowName is a name with a type.
type slowName struct {
	last    control.SlowName // without Count, Worst and Pod
	minutes minutes[slowMinute]
}

type slowMinute struct {
	count uint64
	worst time.Duration
}

type troubledClient struct{ minutes minutes[clientMinute] }

type clientMinute struct{ slow, failed float64 }

// minutes holds sums by minute. The last troubleMinutes of them count.
type minutes[S any] [troubleMinutes]struct {
	minute int64 // minutes since 1970
	sum    S
}

// at returns the sum for the minute of t.
func (m *minutes[S]) at(t time.Time) *S {
	minute := t.Unix() / 60
	slot := &m[uint64(minute)%troubleMinutes] // negative for a clock before 1970
	if slot.minute != minute {
		slot.minute, slot.sum = minute, *new(S)
	}
	return &slot.sum
}

// until returns the sums that count at t.
func (m *minutes[S]) until(t time.Time) (sums []S) {
	now := t.Unix() / 60
	for _, slot := range m {
		if now-troubleMinutes < slot.minute && slot.minute <= now {
			sums = append(sums, slot.sum)
		}
	}
	return sums
}

func newTroubles() *troubles {
	return &troubles{names: stats.NewSketch[slowName](troubleKeys), clients: stats.NewSketch[troubledClient](troubleKeys)}
}

// Trouble is the callback of dnsserver.Config. It records a query that was slow or failed.
func (v *View) Trouble(seen dnsserver.Seen) {
	now := time.Now()
	if !v.troubles.window.take(now.Unix(), troubleRate) {
		return
	}
	rcode, sent := seenRcode(&seen)
	q := control.SlowName{
		Name: seenName(&seen), Type: seenType(&seen), By: v.by(&seen), Why: seen.Why, Client: seen.Client.Addr().Unmap().String(), Took: seen.Took, At: now,
	}
	if sent {
		q.Rcode = dnswire.RcodeText(rcode)
	}
	if seen.Outcome == dnsserver.ByUpstream {
		q.By = seen.Server.String()
	}
	v.troubles.add(q, seen.IsFailed())
}

func (t *troubles) add(q control.SlowName, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients.Add(q.Client, 1).minutes.at(q.At)
	if failed {
		c.failed++
	}
	if q.Took < dnsserver.SlowAfter || q.Name == "" {
		return
	}
	c.slow++
	n := t.names.Add(q.Name+" "+q.Type, 1)
	n.last = q
	sum := n.minutes.at(q.At)
	sum.count, sum.worst = sum.count+1, max(sum.worst, q.Took)
}

// forgetLocked removes entries that are too old.
func (t *troubles) forgetLocked(now time.Time) {
	t.names.Drop(func(n slowName) bool { return len(n.minutes.until(now)) == 0 })
	t.clients.Drop(func(c troubledClient) bool { return len(c.minutes.until(now)) == 0 })
}

// SlowNames returns all recently slow names.
func (v *View) SlowNames(context.Context) control.SlowNames {
	now := time.Now()
	return control.SlowNames{
		APIVersion: control.APIVersion, Kind: "SlowNames", Now: now, Names: v.troubles.slowNames(now, troubleKeys, v.podOfAddr),
		Routes: routeStatus(v.policy(), v.resolver.Forward().Status()),
	}
}

// slowNames returns at most most names that took longest, slowest first. podOf names the clients.
func (t *troubles) slowNames(now time.Time, most int, podOf func(client string) string) []control.SlowName {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(now)
	all := []control.SlowName{}
	for _, e := range t.names.Entries {
		n := e.Details.last
		for _, minute := range e.Details.minutes.until(now) {
			n.Count, n.Worst = n.Count+minute.count, max(n.Worst, minute.worst)
		}
		n.Pod = podOf(n.Client)
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b control.SlowName) int {
		return cmp.Or(cmp.Compare(b.Worst, a.Worst), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type))
	})
	return all[:min(len(all), most)]
}

// troubledClients returns the clients with the most trouble, worst first. podOf names them.
func (t *troubles) troubledClients(now time.Time, podOf func(client string) string) []TroubledClient {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(now)
	all := []TroubledClient{}
	for client, e := range t.clients.Entries {
		of := TroubledClient{Client: client, Pod: podOf(client)}
		for _, minute := range e.Details.minutes.until(now) {
			of.Slow, of.Failed = of.Slow+minute.slow, of.Failed+minute.failed
		}
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b TroubledClient) int {
		return cmp.Or(cmp.Compare(b.Slow+b.Failed, a.Slow+a.Failed), cmp.Compare(a.Client, b.Client))
	})
	return all[:min(len(all), shownClients)]
}
