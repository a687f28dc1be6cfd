package resolve

import (
	"context"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// clusterPatience is how long the cluster's DNS servers may take where a stale answer is known. They go away with the API:
// a client that asks for five names of its search list does not wait five times for servers that are dead.
const clusterPatience = 500 * time.Millisecond

// serveCluster answers names in the cluster's zones, which never leave the node: while nobody knows the cluster the answer is
// SERVFAIL, and not the NXDOMAIN that an upstream would give. It answers from the API. Before that has been read, and while only an
// earlier run's state of it is known, the cluster's own DNS servers know better, if there are any.
func serveCluster(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	apex := s.zoneOf(q.Domain())
	if next.foreign || apex.IsZero() {
		return next.answer(ctx, q)
	}
	r, remembered := next.r, rest{next.r, s, anyAt, false}
	if len(s.Overrides) > 0 && s.IsOverridden(q.Domain()) {
		return remembered.answer(ctx, q)
	}
	if s.zone == nil && len(s.ClusterDNS) == 0 {
		return nil, &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeNotReady, Text: "no cluster DNS server is known for " + apex.String()}
	}
	hasServers := len(s.ClusterDNS) > 0 && !s.IsOfClusterSet(q.Domain()) // they may not know that domain
	if s.zone == nil {
		return remembered.answer(ctx, q)
	}
	if !hasServers && s.zone.Snapshot() == nil {
		r.names.await(ctx)
		if now := r.state.Load(); now != s { // what was waited for is known there
			return rest{r, now, next.from - 1, false}.answer(ctx, q)
		}
	}
	snapshot := s.zone.Snapshot()
	switch {
	case !hasServers:
	case snapshot == nil:
		return remembered.answer(ctx, q)
	case snapshot.IsStale():
		limited, cancel := context.WithTimeout(ctx, clusterPatience)
		defer cancel()
		if m, err := remembered.answer(limited, q); err == nil && m != nil && m.Rcode != dns.RcodeServerFailure {
			return m, nil
		}
	}
	q.Origin = dnsserver.OriginCluster
	return s.zone.ServeDNS(ctx, q)
}

// fastCluster answers from the API, or what the cache has from the cluster's DNS servers while the API says nothing that is newer.
func fastCluster(r *Resolver, s *state, w *walk) verdict {
	switch {
	case !w.isOfZone:
		return pass
	case w.isMiss || len(s.Overrides) > 0:
		return stop
	}
	var ok bool
	if s.zone != nil {
		if snapshot := s.zone.Snapshot(); snapshot != nil && !snapshot.IsStale() {
			if w.response, ok = s.zone.AppendResponse(w.response, w.q.Msg, w.q.Limit); ok {
				return answered
			}
			return stop
		}
	}
	if w.name == nil || len(s.ClusterDNS) == 0 || s.zone != nil && s.zone.Snapshot() != nil && leadsOn(r, s, w.q.Client.Addr()) {
		return stop
	}
	if w.response, ok = s.cache.AppendAndMark(w.response, w.q, w.question, 0, 0); ok {
		return answered
	}
	return stop
}
