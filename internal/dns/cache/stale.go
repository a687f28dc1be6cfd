package cache

import (
	"context"
	"math"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

const (
	// refreshTimeout is the timeout of a query without a waiting client. dnsserver gives a client's
	// query the same.
	refreshTimeout = 5 * time.Second
	// stalePatience is how long a client waits for a response when there is a stale one. RFC 8767
	// section 5 uses 1.8 s, as clients retry soon after that. An upstream needs a tenth of a second
	// to resolve a name.
	stalePatience = 500 * time.Millisecond
	// staleTTL is the TTL that clients see in a stale response (RFC 8767 section 4).
	staleTTL = 30
	// betweenRefreshes is the time between a failed refresh and the next (RFC 8767 section 5). The
	// RFC's 30 s would prolong every outage by as much.
	betweenRefreshes = time.Second
)

// mostRefetches is the maximum number of queries without a waiting client, approximately. They take
// no place in dnsserver. A client with thousands of names that become silent could otherwise make
// the next handler give up other clients' queries for them.
const mostRefetches = 512

// refreshing is the value of entry.again while a refresh is running.
const refreshing = math.MaxUint32

// stale holds the settings of Config.
type stale struct {
	life        time.Duration
	atOnce      bool
	unreachable func(dnsname.Name) <-chan struct{}
	mayProbe    func(dnsname.Name) bool
}

func newStale(c Config) stale {
	s := stale{life: max(c.Stale, 0), atOnce: c.StaleAtOnce, unreachable: c.Unreachable, mayProbe: c.MayProbe}
	if s.unreachable == nil {
		s.unreachable = func(dnsname.Name) <-chan struct{} { return nil }
	}
	if s.mayProbe == nil {
		s.mayProbe = func(dnsname.Name) bool { return true }
	}
	return s
}

// isKnown reports whether the channel from unreachable is closed.
func isKnown(unreachable <-chan struct{}) bool {
	select {
	case <-unreachable:
		return true
	default:
		return false
	}
}

// mayBeStale reports whether an expired entry may still be served.
func (c *Cache) mayBeStale(q *dnsserver.Query, e *entry, now time.Duration) bool {
	return c.stale.life > 0 && e.isUsable(now, c.stale.life) && c.limits.limit(q.Name) == 0
}

// serveStale answers q with a new response or, if that fails or takes too long, with the entry. If
// q.Tried has an answer, the next handler needs no upstream, or another one for an alias in it.
func (c *Cache) serveStale(ctx context.Context, q *dnsserver.Query, e *entry) (*dns.Msg, error) {
	unreachable := c.stale.unreachable(q.Name)
	if q.Tried.IsAnswer() {
		unreachable = nil
	}
	isUnreachable := q.Tried != nil && !q.Tried.IsAnswer() || isKnown(unreachable)
	switch {
	case !q.Msg.RecursionDesired: // the response would not be stored
	case isUnreachable, c.stale.atOnce:
		c.refresh(q, e)
	default:
		if m := c.fetchSoon(ctx, q, e, unreachable); m != nil {
			c.misses.Add(1)
			return m, nil
		}
		isUnreachable = true
	}
	ttl := uint32(0) // as in dnsmasq: the client repeats the query and gets the new response
	if isUnreachable {
		ttl = staleTTL
	}
	m := staleResponse(q, e, ttl)
	if m == nil {
		c.misses.Add(1)
		return c.fetch(ctx, q, e.key())
	}
	q.Cached, q.Stale, q.Age, q.AnsweredBy = true, true, max(0, c.elapsed()-e.stored), e.server.Value()
	c.staleHits.Add(1)
	return m, nil
}

// staleResponse returns the response to q from an expired entry, or nil if it cannot be parsed.
func staleResponse(q *dnsserver.Query, e *entry, ttl uint32) *dns.Msg {
	m := e.response(q, 0)
	if m == nil {
		return nil
	}
	code := dns.ExtendedErrorCodeStaleAnswer
	if m.Rcode == dns.RcodeNameError {
		code = dns.ExtendedErrorCodeStaleNXDOMAINAnswer
	}
	eachTTL(m, func(uint32) uint32 { return ttl })
	dnsserver.Explain(m, code, "")
	return m
}

// fetchSoon is fetch, but returns nil if no answer arrives in time or no server is known to be
// alive. A late answer is still stored: for one client of the entry, the query outlives it.
func (c *Cache) fetchSoon(ctx context.Context, q *dnsserver.Query, e *entry, unreachable <-chan struct{}) *dns.Msg {
	again := &dnsserver.Query{Msg: q.Msg, Name: q.Name, Client: q.Client, Local: q.Local, Proto: q.Proto, Inquiry: q.Inquiry, Tried: q.Tried}
	at := e.again.Load()
	if at == refreshing || !e.again.CompareAndSwap(at, refreshing) {
		ctx, cancel := context.WithTimeout(ctx, stalePatience)
		defer cancel()
		m := c.fetchAnswer(ctx, again, e)
		q.AnsweredBy = again.AnsweredBy
		return m
	}
	type answer struct {
		m    *dns.Msg
		from *dnsserver.Query
	}
	answers := make(chan answer, 1)
	c.run(func() {
		defer func() { e.again.Store(max(at, ticks(c.elapsed()))) }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		answers <- answer{c.fetchAnswer(ctx, again, e), again}
	})
	timer := time.NewTimer(stalePatience)
	defer timer.Stop()
	select {
	case a := <-answers:
		q.AnsweredBy = a.from.AnsweredBy
		return a.m
	case <-timer.C:
	case <-unreachable:
	case <-ctx.Done():
	}
	return nil
}

// fetchAnswer is fetch, but returns nil instead of a failure, which is worse than stale data (RFC
// 8767 section 4).
func (c *Cache) fetchAnswer(ctx context.Context, q *dnsserver.Query, e *entry) *dns.Msg {
	m, err := c.fetch(ctx, q, e.key())
	if hasFailed(m, err) || err != nil || m != nil && m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return nil
	}
	return m
}

// refresh fetches a response again, unless that is already happening or has just failed. If it
// fails, the old response stays. At most one refresh per entry runs, and only a few while no server
// is known to be alive; the next handler has its own limit.
func (c *Cache) refresh(q *dnsserver.Query, e *entry) {
	if !c.mayRefresh(q.Name, e) {
		return
	}
	c.refetch(&dnsserver.Query{Msg: q.Msg, Name: q.Name, Client: q.Client, Local: q.Local, Proto: q.Proto}, e)
}

// refetch fetches the response of an entry without a waiting client, after mayRefresh.
func (c *Cache) refetch(q *dnsserver.Query, e *entry) {
	c.refetches.Add(1)
	c.run(func() {
		defer c.refetches.Add(-1)
		defer c.refreshed(q.Name, e)
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		defer cancel()
		_, _ = c.fetch(ctx, q, e.key())
	})
}

// mayRefresh reports whether the entry should be refreshed now. If so, no other caller may until
// refreshed.
func (c *Cache) mayRefresh(name dnsname.Name, e *entry) bool {
	at := e.again.Load()
	return at <= ticks(c.elapsed()) && c.refetches.Load() < mostRefetches && c.stale.mayProbe(name) && e.again.CompareAndSwap(at, refreshing)
}

// refreshed records the end of a refresh. While no server is known to be alive, mayProbe decides
// when the next refresh runs, even of the same name.
func (c *Cache) refreshed(name dnsname.Name, e *entry) {
	next := c.elapsed()
	if !isKnown(c.stale.unreachable(name)) {
		next += betweenRefreshes
	}
	e.again.Store(ticks(next))
}

// prefetch is refresh for an entry that is in use and not stale yet.
func (c *Cache) prefetch(e *entry) {
	if c.refetches.Load() >= mostRefetches {
		return
	}
	qname, err := e.key().name()
	if err != nil || e.isFailure() {
		return
	}
	q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(qname, e.key().qtype())}
	q.Name, _ = dnsname.Parse(qname) // zero if invalid, as in dnsserver
	if c.limits.limit(q.Name) != 0 || !c.mayRefresh(q.Name, e) {
		return
	}
	if q.Msg.CheckingDisabled = e.flags&keyCD != 0; e.flags&keyDO != 0 {
		q.Msg.SetEdns0(udpSize, true)
	}
	c.prefetched.Add(1)
	c.refetch(q, e)
}

// ticks converts to units of 67 ms; 32 bits hold nine years.
func ticks(now time.Duration) uint32 { return uint32(now >> 26) }

// isUsable reports whether the entry may be served, either live or stale. A failure is never
// stale.
func (e *entry) isUsable(now, stale time.Duration) bool {
	if e.isFailure() {
		stale = 0
	}
	return max(0, now-e.stored)-e.life < stale
}

// isNearEnd reports whether the entry is in the last tenth of its lifetime, unbound's rule for
// prefetch.
func (e *entry) isNearEnd(now time.Duration) bool { return now-e.stored >= e.life-e.life/10 }
