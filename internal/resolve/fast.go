package resolve

import (
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// begin returns a walk for q. q must not change until end, which returns the walk to the pool.
func (r *Resolver) begin(s *state, q *dnsserver.WireQuery) *walk {
	w := r.walks.Get().(*walk)
	w.q = q
	w.question = q.AppendKey(w.roomForQuestion[:0])
	name, isName := dnswire.AppendText(w.roomForName[:0], q.Name())
	if w.name = name; !isName {
		w.name = nil
	}
	// As Query.Domain: a name that is not valid belongs to its nearest valid ancestor.
	for above := q.Name(); !isName; name, isName = dnswire.AppendText(w.roomForName[:0], above) {
		above = above[1+above[0]:]
	}
	w.isOfZone = s.isOfZone(name)
	return w
}

func (r *Resolver) end(w *walk) {
	w.q, w.response, w.isMiss, w.later = nil, nil, false, nil
	r.walks.Put(w)
}

// walk calls the handlers one after the other until one stops or answers.
func (r *Resolver) walk(s *state, w *walk) verdict {
	for i := range r.order {
		if r.order[i].fast == nil {
			continue
		}
		if v := r.order[i].fast(r, s, w); v != pass {
			return v
		}
	}
	return stop
}

// Fast is the dnsserver.Config.Wire function. It answers from known data: cluster names from the
// last API snapshot, and others from the cache. It does not allocate.
//
// Two shortcuts save nearly all queries the walk. An earlier answer for a cluster name is ready to
// use under the same state and snapshot. A cache entry has the mark of the last state under which a
// walk reached it. A query that has walked the entire list without a cache hit has that mark too,
// which saves Miss and keep the walk under the same state.
func (r *Resolver) Fast(dst []byte, q *dnsserver.WireQuery) (response []byte, ok bool) {
	s := r.state.Load()
	var room [dnswire.MaxQuestion]byte
	question := q.AppendKey(room[:0])
	if s.zone != nil {
		if response, ok = s.zone.AppendReady(dst, q, question); ok {
			return r.answeredFor(s, q, response, len(dst))
		}
	}
	if response, ok = s.cache.AppendMarked(dst, q, question, s.clientTTL(), s.mark); ok {
		return response, true
	}
	w := r.begin(s, q)
	defer r.end(w)
	w.response = dst
	if r.walk(s, w) != answered {
		return dst, false
	}
	if w.isOfZone {
		return r.answeredFor(s, q, w.response, len(dst))
	}
	return w.response, true
}

// answeredFor returns an answer for a cluster name, unless a handler would continue after it.
func (r *Resolver) answeredFor(s *state, q *dnsserver.WireQuery, response []byte, start int) ([]byte, bool) {
	if rcodeOf(response[start:]) != dns.RcodeNameError {
		return response, true
	}
	for i := range r.order {
		if r.order[i].continues != nil && r.order[i].continues(r, s, q.Client.Addr()) {
			return response[:start], false
		}
	}
	r.absent.Add()
	return response, true
}

// rcodeOf returns the rcode in the header of a response (RFC 1035 section 4.1.1).
func rcodeOf(response []byte) int { return int(response[3] & 0xf) }

// Miss is the dnsserver.Config.Miss function. It forwards queries that Fast could not answer to an
// upstream nameserver without parsing them.
func (r *Resolver) Miss(l *dnsserver.PendingQuery) bool {
	s := r.state.Load()
	q := l.Query()
	if q.Mark == s.mark {
		return r.ask(s, l)
	}
	w := r.begin(s, q)
	defer r.end(w)
	w.isMiss, w.later = true, l
	return r.walk(s, w) == answered
}

// isForUpstreams reports whether a question that is not cached goes to the upstreams under s.
func (r *Resolver) isForUpstreams(s *state, q *dnsserver.WireQuery) bool {
	if q.Mark == s.mark {
		return true
	}
	copied := *q // only the copy escapes to the heap
	w := r.begin(s, &copied)
	defer r.end(w)
	w.isMiss = true
	return r.walk(s, w) == answered
}
