package view

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

const (
	// limitsEvery is the interval between limit checks.
	limitsEvery = 5 * time.Second
	// limitsQuiet is how long a limit must not be hit before it counts as over. Refused clients
	// retry.
	limitsQuiet = time.Minute
)

// spell is a period in which a limit is hit repeatedly.
type spell struct {
	began, last time.Time // zero if there is no spell
	before      uint64    // counter value at the begin
	counter     uint64
}

// look takes the current counter and decides what to log.
func (s *spell) look(now time.Time, counter uint64) (begins, ends bool) {
	grown := counter > s.counter
	if grown && s.began.IsZero() {
		s.began, s.before, begins = now, s.counter, true
	}
	s.counter = counter
	switch {
	case grown:
		s.last = now
	case !s.began.IsZero() && now.Sub(s.last) >= limitsQuiet:
		ends = true
	}
	return begins, ends
}

// limitWords are the names of the limits in the log, in the order of limitCounters.
var limitWords = []string{
	"client not allowed by allowFrom", "clientRateLimit", "pending queries per client",
	"upstream traffic per client", "pending queries",
	"dnsForwardMax, or no socket", "connections", "no file descriptor for a connection",
}

func limitCounters(l control.Limits) []uint64 {
	return []uint64{l.Strangers, l.Hasty, l.Crowding, l.Costly, l.Full, l.Upstream, l.TCPRefused, l.NoDescriptors}
}

// WatchLimits logs the beginning and the end of periods in which queries are not served because of
// a limit. One line per query would be too much.
func (v *View) WatchLimits(ctx context.Context) error {
	spells := make([]spell, len(limitWords))
	ticker := time.NewTicker(limitsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			v.logLimits(now, spells)
		}
	}
}

func (v *View) logLimits(now time.Time, spells []spell) {
	limits := v.queryStatus().Limits
	crowder := []any{"client", limits.Crowder, "pod", limits.CrowderPod}
	who := [][]any{0: {"client", limits.Stranger, "pod", limits.StrangerPod}, 2: crowder, 3: crowder}
	for i, counter := range limitCounters(limits) {
		s := &spells[i]
		begins, ends := s.look(now, counter)
		switch {
		case begins:
			attrs := []any{"limit", limitWords[i], "count", counter - s.before}
			if i < len(who) {
				attrs = append(attrs, known(who[i])...)
			}
			v.Log.Warn("limit reached: some queries or connections are not served", append(attrs, journal.LimitMet.Attr())...)
		case ends:
			v.Log.Info("limit no longer reached", "limit", limitWords[i], "count", counter-s.before, "for", s.last.Sub(s.began).Round(time.Second),
				journal.LimitOver.Attr())
			*s = spell{counter: counter}
		}
	}
}

// known drops the pairs whose text is empty.
func known(pairs []any) (all []any) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			all = append(all, pair...)
		}
	}
	return all
}

// met is the last client that hit a limit, with its pod. The pod's name is kept after the pod is
// gone. The methods are safe for concurrent use.
type met struct {
	mu     sync.Mutex // guards the fields below
	client netip.Addr
	pod    string
}

// seen returns a client and its pod as strings, which are empty if there is none or it is unknown.
// now is the pod that currently has the address.
func (m *met) seen(client netip.Addr, now string) (address, pod string) {
	if !client.IsValid() {
		return "", ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if client != m.client {
		m.client, m.pod = client, ""
	}
	m.pod = cmp.Or(now, m.pod)
	return client.String(), m.pod
}
