package resolve

import (
	"context"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// serveCached answers from the cache, which calls missed for a miss.
func serveCached(ctx context.Context, s *state, q *dnsserver.Query, _ rest) (*dns.Msg, error) {
	return s.cache.ServeDNS(ctx, q)
}

// fastCache answers from the cache and marks the entry. The mark means that no earlier handler
// affects the answer under the current state.
func fastCache(_ *Resolver, s *state, w *walk) verdict {
	if !w.isMiss {
		var ok bool
		if w.response, ok = s.cache.AppendAndMark(w.response, w.q, w.question, s.clientTTL(), s.mark); ok {
			return answered
		}
	}
	return stopIf(s.Settings.StaleAtOnce) // the answer may have to be a stale one
}

// missed is the cache.Config.Next function.
func (r *Resolver) missed(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	if t := q.Trace(); t != nil {
		t.Note(notRemembered(q))
	}
	return rest{r, r.state.Load(), screenAt, false}.ServeDNS(ctx, q)
}

// notRemembered returns the reason, for a trace, why the cache does not answer.
func notRemembered(q *dnsserver.Query) string {
	if q.SkipsCache() {
		return "the cache is skipped"
	}
	return "the cache has no valid entry"
}

// clusterLimit is the maximum time to cache an answer for a cluster name. A Service that appears or
// moves must be visible within seconds, regardless of the TTL (30 s in CoreDNS) and negative TTL of
// the cluster DNS server.
const clusterLimit = 5 * time.Second

func (r *Resolver) cacheLimit(name dnsname.Name) time.Duration {
	if r.Policy().IsOfCluster(name) {
		return clusterLimit
	}
	return 0
}

// cacheLimit is Resolver.cacheLimit for an unparsed query.
func (s *state) cacheLimit(q *dnsserver.WireQuery) time.Duration {
	var room [dnswire.MaxName]byte
	text, ok := dnswire.AppendText(room[:0], q.Name())
	if ok && slices.ContainsFunc(s.Apexes, func(apex dnsname.Name) bool { return apex.Covers(text) }) {
		return clusterLimit
	}
	return 0
}

// refresh is the cache.Config.Go function. It runs ask, which replaces a stale answer.
func (r *Resolver) refresh(ask func()) {
	r.refreshes.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				r.config.Panics.Caught(r.config.Log, "refreshing an answer panicked", journal.QueryPanic, p)
			}
		}()
		ask()
	})
}
