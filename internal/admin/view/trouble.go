package view

import (
	"cmp"
	"context"
	"net/netip"
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
	name    string
	last    slowQuery
	minutes minutes[slowMinute]
}

type slowMinute struct {
	count uint64
	worst time.Duration
}

// slowQuery is the displayed part of one query.
type slowQuery struct {
	qtype, rcode, by, why string
	client                netip.Addr
	took                  time.Duration
	at                    time.Time
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
	q := slowQuery{qtype: seenType(&seen), by: v.by(&seen), why: seen.Why, client: seen.Client.Addr().Unmap(), took: seen.Took, at: now}
	if sent {
		q.rcode = dnswire.RcodeText(rcode)
	}
	if seen.Outcome == dnsserver.ByUpstream {
		q.by = seen.Server.String()
	}
	v.troubles.add(seenName(&seen), q, seen.IsFailed())
}

func (t *troubles) add(name string, q slowQuery, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients.Add(q.client.String(), 1).minutes.at(q.at)
	if failed {
		c.failed++
	}
	if q.took < dnsserver.SlowAfter || name == "" {
		return
	}
	c.slow++
	n := t.names.Add(name+" "+q.qtype, 1)
	n.name, n.last = name, q
	sum := n.minutes.at(q.at)
	sum.count, sum.worst = sum.count+1, max(sum.worst, q.took)
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
		APIVersion: control.APIVersion, Kind: "SlowNames", Now: now, Names: v.troubles.slowNames(now, troubleKeys, v.podAt),
		Routes: routeStatus(v.policy(), v.resolver.Forward().Status()),
	}
}

// slowNames returns at most most names that took longest, slowest first. podOf names the clients.
func (t *troubles) slowNames(now time.Time, most int, podOf func(netip.Addr) string) []control.SlowName {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(now)
	all := []control.SlowName{}
	for _, e := range t.names.Entries {
		n := e.Details
		var sum slowMinute
		for _, minute := range n.minutes.until(now) {
			sum.count, sum.worst = sum.count+minute.count, max(sum.worst, minute.worst)
		}
		all = append(all, control.SlowName{
			Name: n.name, Type: n.last.qtype, Count: sum.count, Worst: sum.worst, Took: n.last.took, At: n.last.at, Rcode: n.last.rcode, By: n.last.by, Why: n.last.why,
			Client: n.last.client.String(), Pod: podOf(n.last.client),
		})
	}
	slices.SortFunc(all, func(a, b control.SlowName) int {
		return cmp.Or(cmp.Compare(b.Worst, a.Worst), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type))
	})
	return all[:min(len(all), most)]
}

// troubledClients returns the clients with the most trouble, worst first. podOf names them.
func (t *troubles) troubledClients(now time.Time, podOf func(netip.Addr) string) []TroubledClient {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(now)
	all := []TroubledClient{}
	for client, e := range t.clients.Entries {
		addr, _ := netip.ParseAddr(client) // the zero address has no pod
		of := TroubledClient{Client: client, Pod: podOf(addr)}
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
