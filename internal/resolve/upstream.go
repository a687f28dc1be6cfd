package resolve

import (
	"context"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
)

// serveUpstream queries the upstream nameservers.
func serveUpstream(ctx context.Context, _ *state, q *dnsserver.Query, next rest) (*dns.Msg, error) {
	return next.r.forward.ServeDNS(ctx, q)
}

// fastUpstream queries them without a waiting goroutine; answered receives the answer.
func fastUpstream(r *Resolver, s *state, w *walk) verdict {
	switch {
	case w.name == nil:
		return stop
	case !w.isMiss:
		w.q.Mark = s.mark
		return stop
	case w.later == nil, r.ask(s, w.later):
		return answered
	}
	return stop
}

// ask queries the upstreams.
func (r *Resolver) ask(s *state, l *dnsserver.PendingQuery) bool {
	if !r.forward.Ask(l, s.cache.Epoch(), s.cache.HasStale(l.Query())) {
		return false
	}
	s.cache.Missed()
	return true
}

// answered is the forward.Config.Answered function. It passes the answer to the waiting queries and
// caches it.
func (r *Resolver) answered(reply forward.Reply) {
	s := r.state.Load()
	if r.mustCut(s, reply) {
		handleCut(reply)
		return
	}
	response, ok := r.keep(s, reply)
	for i, l := range reply.Waiting {
		reply.Waiting[i] = nil
		if !ok {
			l.Handle(nil)
			continue
		}
		l.SendWith(reply.Out, response.Append(reply.Out.Buffer()[:0], l.Query(), s.clientTTL()), reply.From)
	}
}

// keep caches an answer. ok is false if ServeDNS must query again, because a handler may affect the
// answer under the current state or because the answer cannot be packed.
func (r *Resolver) keep(s *state, reply forward.Reply) (response cache.Response, ok bool) {
	if !r.isForUpstreams(s, &reply.Query) {
		return response, false
	}
	if reply.Msg != nil {
		return s.cache.Keep(reply.Query, reply.Msg, reply.From.Value(), reply.Tag)
	}
	return s.cache.KeepWire(reply.Query, reply.Wire, s.cacheLimit(&reply.Query), reply.From, reply.At, reply.Tag), true
}
