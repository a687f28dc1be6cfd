package resolve

import (
	"context"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// clusterPatience is the timeout for the cluster's DNS servers if the API snapshot is stale. They
// often fail together with the API, and a client that queries five names of its search list should
// not wait five times for dead servers.
const clusterPatience = 500 * time.Millisecond

// serveCluster answers names in the cluster's zones, which never leave the node. While nothing is
// known about the cluster, the answer is SERVFAIL and not an upstream's NXDOMAIN. The answer comes
// from the API. Until the API has been read, and while only the snapshot of an earlier run is
// known, the cluster's own DNS servers, if any, take precedence.
func serveCluster(ctx context.Context, s *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	apex := s.zoneOf(q.Domain())
	if next.foreign || apex.IsZero() {
		return next.ServeDNS(ctx, q)
	}
	r, remembered := next.r, rest{next.r, s, anyAt, false}
	if len(s.Overrides) > 0 && s.IsOverridden(q.Domain()) {
		return remembered.ServeDNS(ctx, q)
	}
	if s.zone == nil && len(s.ClusterDNS) == 0 {
		return nil, &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeNotReady, Text: "no cluster DNS server is known for " + apex.String()}
	}
	// The servers may not know the cluster-set domain.
	hasServers := len(s.ClusterDNS) > 0 && !s.IsOfClusterSet(q.Domain())
	if s.zone == nil {
		return remembered.ServeDNS(ctx, q)
	}
	if !hasServers && s.zone.Snapshot() == nil {
		r.names.await(ctx)
		if now := r.state.Load(); now != s { // the new state has the data that was awaited
			return rest{r, now, next.from - 1, false}.ServeDNS(ctx, q)
		}
	}
	snapshot := s.zone.Snapshot()
	switch {
	case !hasServers:
	case snapshot == nil:
		return remembered.ServeDNS(ctx, q)
	case snapshot.IsStale():
		limited, cancel := context.WithTimeout(ctx, clusterPatience)
		defer cancel()
		if m, err := remembered.ServeDNS(limited, q); err == nil && m != nil && m.Rcode != dns.RcodeServerFailure {
			return m, nil
		}
	}
	q.Origin = dnsserver.OriginCluster
	return s.zone.ServeDNS(ctx, q)
}

// fastCluster answers from the API, or from the cached answers of the cluster's DNS servers while
// the API has nothing newer.
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
	if w.name == nil || len(s.ClusterDNS) == 0 || s.zone != nil && s.zone.Snapshot() != nil && walksList(r, s, w.q.Client.Addr()) {
		return stop
	}
	if w.response, ok = s.cache.AppendAndMark(w.response, w.q, w.question, 0, 0); ok {
		return answered
	}
	return stop
}
