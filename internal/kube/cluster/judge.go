package cluster

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// judge updates the State, logs its changes, and publishes again when the published data becomes
// stale or fresh, or when all Pods or the ServiceImports become known or unknown. Before the first
// publication it passes the reason to Config.Unready.
func (o *owner) judge() {
	now := time.Now()
	o.watchImports(now)
	before := o.w.State()
	next := o.assess(now)
	next.Since = before.Since
	if next.Phase != before.Phase {
		next.Since = now
	}
	o.w.state.Store(&next)
	if next.Phase != before.Phase || next.LastError != before.LastError && next.LastError != "" && next.Phase != Synced {
		o.announce(next)
	}
	if o.published.at.IsZero() {
		if !o.judged || before.Phase != next.Phase || before.LastError != next.LastError {
			o.judged = true
			o.w.config.Unready(next.unready())
		}
		return
	}
	if stale := !o.fromDisk.IsZero() || o.isStale(now); stale != o.published.stale || o.store.hasAllPods() != o.published.allPods || o.lacksImports(now) != o.published.lacking {
		o.give()
	}
}

// watchImports records since when the ServiceImports are not watched.
func (o *owner) watchImports(now time.Time) {
	p := o.store.progress[kubewire.ServiceImports]
	switch {
	case p == nil || p.err == nil:
		o.importsAt = time.Time{}
	case o.importsAt.IsZero():
		o.importsAt = now
	}
}

// lacksImports reports whether the API has ServiceImports that are unknown or possibly outdated.
func (o *owner) lacksImports(now time.Time) bool {
	return o.store.lacksImports() || !o.importsAt.IsZero() && o.fromDisk.IsZero() && now.Sub(o.importsAt) >= staleAfter
}

func (o *owner) announce(s State) {
	attrs := []any{"phase", s.Phase.String(), "server", s.Server}
	level := slog.LevelInfo
	if s.LastError != "" {
		level = slog.LevelWarn
		attrs = append(attrs, "error", s.LastError)
	} else {
		attrs = append(attrs, "services", s.Counts.Services, "slices", s.Counts.Slices,
			"endpoints", s.Counts.Endpoints, "namespaces", s.Counts.Namespaces, "pods", s.Counts.Pods)
	}
	if condition := s.condition(); condition != 0 {
		attrs = append(attrs, condition.Attr())
	}
	o.w.log.Log(context.Background(), level, "cluster", attrs...)
}

// condition returns the journal condition of the State, or 0 if it has none.
func (s State) condition() journal.Condition {
	switch {
	case s.Phase == Synced:
		return journal.ClusterSynced
	case s.Phase == Stale:
		return journal.ClusterStale
	case s.Phase == Forbidden:
		return journal.ClusterForbidden
	case s.LastError != "":
		return journal.ClusterAway
	}
	return 0
}

// assess builds the State. It also records since when something has failed.
func (o *owner) assess(now time.Time) State {
	s := State{Kubeconfig: o.w.config.Kubeconfig, FromDisk: o.fromDisk, Totals: o.store.totals, LastDrop: o.lastDrop}
	if latest := o.w.latest.Load(); latest != nil {
		s.Counts = latest.Counts()
	}
	if o.heard.connection != nil {
		s.Server = o.heard.connection.api.server.String()
	}
	var err error
	s.Phase, s.Missing, err = o.phase()
	if err != nil {
		s.LastError = err.Error()
	}
	switch {
	case s.Phase == Synced:
		o.failing = time.Time{}
	case o.failing.IsZero():
		o.failing = now
	}
	switch {
	case !o.whole || s.Phase == Synced:
	case o.isStale(now):
		s.Phase = Stale
	default:
		s.Phase = Synced // the data is at most staleAfter old
	}
	return s
}

// isStale reports whether the state has not been watched for so long that it may be wrong.
func (o *owner) isStale(now time.Time) bool {
	return !o.failing.IsZero() && now.Sub(o.failing) >= staleAfter
}

// phase returns the progress of the connection and its sources, whatever was known before.
func (o *owner) phase() (Phase, []Right, error) {
	if o.heard.shape == unknownShape {
		if hasCode(o.heard.err, http.StatusUnauthorized) {
			return Forbidden, nil, o.heard.err
		}
		return o.heard.phase, nil, o.heard.err
	}
	var first error
	var missing []Right
	failed := false
	for _, at := range slices.Sorted(maps.Keys(o.store.progress)) {
		p := o.store.progress[at]
		if p.err == nil {
			continue
		}
		if e, ok := status(p.err); ok && e.Code == http.StatusForbidden && !slices.Contains(missing, e.right) {
			missing = append(missing, e.right)
		}
		failed = failed || !p.optional()
		if first == nil {
			first = p.err
		}
	}
	switch {
	case !failed && o.whole && o.store.synced():
		return Synced, missing, first
	case len(missing) > 0 || hasCode(first, http.StatusUnauthorized):
		return Forbidden, missing, first
	case failed:
		return Connecting, missing, first
	}
	return Syncing, missing, nil
}
