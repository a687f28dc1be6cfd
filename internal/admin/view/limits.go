package view

import (
	"cmp"
	"context"
	"net/netip"
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

// loggedLimit is a limit as the log names it.
type loggedLimit struct {
	name    string
	counter uint64
	client  []any // attributes of a client that hit it; nil if unknown
}

func loggedLimits(l control.Limits) []loggedLimit {
	crowder := clientAttrs(l.Crowder, l.CrowderPod)
	return []loggedLimit{
		{"client not allowed by allowFrom", l.Strangers, clientAttrs(l.Stranger, l.StrangerPod)},
		{"clientRateLimit", l.Hasty, nil},
		{"pending queries per client", l.Crowding, crowder},
		{"upstream traffic per client", l.Costly, crowder},
		{"pending queries", l.Full, nil},
		{"dnsForwardMax, or no socket", l.Upstream, nil},
		{"connections", l.TCPRefused, nil},
		{"no file descriptor for a connection", l.NoDescriptors, nil},
	}
}

// clientAttrs returns the known ones of a client's address and pod.
func clientAttrs(address, pod string) (attrs []any) {
	if address != "" {
		attrs = append(attrs, "client", address)
	}
	if pod != "" {
		attrs = append(attrs, "pod", pod)
	}
	return attrs
}

// WatchLimits logs the beginning and the end of periods in which queries are not served because of
// a limit. One line per query would be too much.
func (v *View) WatchLimits(ctx context.Context) error {
	spells := map[string]spell{}
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

// logLimits logs what has changed since the last call. spells has the state of each limit by name.
func (v *View) logLimits(now time.Time, spells map[string]spell) {
	for _, l := range loggedLimits(v.queryStatus().Limits) {
		s := spells[l.name]
		begins, ends := s.look(now, l.counter)
		switch {
		case begins:
			attrs := append([]any{"limit", l.name, "count", l.counter - s.before}, l.client...)
			v.Log.Warn("limit reached: some queries or connections are not served", append(attrs, journal.LimitMet.Attr())...)
		case ends:
			v.Log.Info("limit no longer reached", "limit", l.name, "count", l.counter-s.before, "for", s.last.Sub(s.began).Round(time.Second),
				journal.LimitOver.Attr())
			s = spell{counter: l.counter}
		}
		spells[l.name] = s
	}
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
