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
	// limitsEvery is how often it is looked whether a bound is met.
	limitsEvery = 5 * time.Second
	// limitsQuiet is how long none must be for it to be over: who is refused asks again.
	limitsQuiet = time.Minute
)

// spell is a time during which a bound is met again and again.
type spell struct {
	began, last time.Time // zero: there is none now
	before      uint64    // the counter when it began
	counter     uint64
}

// look takes in what the counter is now, and says what to log.
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

// limitWords are the bounds as the log names them, in the order of counters.
var limitWords = []string{
	"the client may not ask: allowFrom", "clientRateLimit", "the client's share of the queries that wait",
	"the client's share of what upstream nameservers send", "queries that wait",
	"dnsForwardMax, or no socket", "connections", "no file descriptor for a connection",
}

func limitCounters(l control.Limits) []uint64 {
	return []uint64{l.Strangers, l.Hasty, l.Crowding, l.Costly, l.Full, l.Upstream, l.TCPRefused, l.NoDescriptors}
}

// WatchLimits logs when it begins and when it ends that queries are not served for a bound: each query may be such a one.
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
			v.Log.Warn("not serving all that is asked", append(attrs, journal.LimitMet.Attr())...)
		case ends:
			v.Log.Info("serving all that is asked again", "limit", limitWords[i], "count", counter-s.before, "for", s.last.Sub(s.began).Round(time.Second),
				journal.LimitOver.Attr())
			*s = spell{counter: counter}
		}
	}
}

// known are the pairs of a key and a text that is not empty.
func known(pairs []any) (all []any) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			all = append(all, pair...)
		}
	}
	return all
}

// met is the last client that met a bound, and the pod that it was. The name outlives the pod. Its methods may be called concurrently.
type met struct {
	mu     sync.Mutex // guards what follows
	client netip.Addr
	pod    string
}

// seen returns the texts of a client and its pod; "": there is none, or it is not known. now is the pod that has the address now.
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
