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
	// refreshTimeout is how long a response may take that nobody waits for. dnsserver gives a client's query as long.
	refreshTimeout = 5 * time.Second
	// stalePatience is how long a client waits for a response when there is a stale one: RFC 8767 section 5 has 1.8 s for it, as
	// clients ask again soon after that; a name that an upstream has to find out takes a tenth of a second.
	stalePatience = 500 * time.Millisecond
	// staleTTL is what clients are told of a stale response, RFC 8767 section 4.
	staleTTL = 30
	// betweenRefreshes is the time from one failure to have a response replaced to the next try, RFC 8767 section 5. Its 30 s would
	// be as much longer than the outage.
	betweenRefreshes = time.Second
)

// stale is Config's.
type stale struct {
	life     time.Duration
	atOnce   bool
	dark     func(dnsname.Name) <-chan struct{}
	mayProbe func(dnsname.Name) bool
}

func newStale(c Config) stale {
	s := stale{life: max(c.Stale, 0), atOnce: c.StaleAtOnce, dark: c.Dark, mayProbe: c.MayProbe}
	if s.dark == nil {
		s.dark = func(dnsname.Name) <-chan struct{} { return nil }
	}
	if s.mayProbe == nil {
		s.mayProbe = func(dnsname.Name) bool { return true }
	}
	return s
}

// isKnown reports whether what dark returned is closed.
func isKnown(dark <-chan struct{}) bool {
	select {
	case <-dark:
		return true
	default:
		return false
	}
}

// mayBeStale reports whether an entry whose TTLs have ended may be given out all the same.
func (c *Cache) mayBeStale(q *dnsserver.Query, e *entry, now time.Duration) bool {
	return c.stale.life > 0 && e.isUsable(now, c.stale.life) && c.limits.limit(q.Name) == 0
}

// serveStale answers q anew, or where that cannot be, or takes long, with the entry.
func (c *Cache) serveStale(ctx context.Context, q *dnsserver.Query, e *entry) (*dns.Msg, error) {
	dark := c.stale.dark(q.Name)
	isDark := q.Tried != nil || isKnown(dark)
	switch {
	case !q.Msg.RecursionDesired: // nothing would be remembered
	case isDark, c.stale.atOnce:
		c.refresh(q, e)
	default:
		if m := c.fetchSoon(ctx, q, e, dark); m != nil {
			c.misses.Add(1)
			return m, nil
		}
		isDark = true
	}
	ttl := uint32(0) // as dnsmasq's: a client asks again, and is told what was found out meanwhile
	if isDark {
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

// staleResponse is the response to q of an entry whose TTLs have ended; nil: it cannot be read.
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
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: code}}
	m.Extra = append(m.Extra, opt)
	return m
}

// fetchSoon is fetch; nil: there is no answer, or none yet, or it is known that nobody is there. What comes later is remembered.
func (c *Cache) fetchSoon(ctx context.Context, q *dnsserver.Query, e *entry, dark <-chan struct{}) *dns.Msg {
	type answer struct {
		m    *dns.Msg
		from *dnsserver.Query
	}
	answers := make(chan answer, 1)
	again := &dnsserver.Query{Msg: q.Msg, Name: q.Name, Client: q.Client, Local: q.Local, Proto: q.Proto, Inquiry: q.Inquiry}
	c.run(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		m, err := c.fetch(ctx, again, e.key())
		if hasFailed(m, err) || err != nil || m != nil && m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
			m = nil // RFC 8767 section 4: no answer, stale data is better
		}
		answers <- answer{m, again}
	})
	timer := time.NewTimer(stalePatience)
	defer timer.Stop()
	select {
	case a := <-answers:
		q.AnsweredBy = a.from.AnsweredBy
		return a.m
	case <-timer.C:
	case <-dark:
	case <-ctx.Done():
	}
	return nil
}

// refresh asks for a response anew, unless that is under way, or has failed a moment ago. Where nobody has one, the old one stays.
// As many are under way as there are entries at most, and a few where it is known that nobody is there; the next handler has its
// own bound.
func (c *Cache) refresh(q *dnsserver.Query, e *entry) {
	if !c.mayRefresh(q.Name, e) {
		return
	}
	again := &dnsserver.Query{Msg: q.Msg, Name: q.Name, Client: q.Client, Local: q.Local, Proto: q.Proto}
	c.run(func() {
		defer c.refreshed(q.Name, e)
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		defer cancel()
		_, _ = c.fetch(ctx, again, e.key()) // the client has its answer
	})
}

// mayRefresh reports whether the entry is to be asked for anew. If so nobody else does until refreshed.
func (c *Cache) mayRefresh(name dnsname.Name, e *entry) bool {
	now := c.elapsed()
	return e.again.Load() <= ticks(now) && c.stale.mayProbe(name) && e.claim(now)
}

// refreshed is called when the entry has been asked for anew. Where it is known that nobody is there, mayProbe says when that is
// to be done again, be it for the same name.
func (c *Cache) refreshed(name dnsname.Name, e *entry) {
	next := c.elapsed()
	if !isKnown(c.stale.dark(name)) {
		next += betweenRefreshes
	}
	e.again.Store(ticks(next))
}

// prefetch is refresh for an entry that is in use, and not stale yet.
func (c *Cache) prefetch(e *entry) {
	qname, err := e.key().name()
	if err != nil || e.isFailure() {
		return
	}
	q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(qname, e.key().qtype())}
	q.Name, _ = dnsname.Parse(qname) // zero when it is none, as dnsserver has it
	if c.limits.limit(q.Name) != 0 || !c.mayRefresh(q.Name, e) {
		return
	}
	if q.Msg.CheckingDisabled = e.flags&keyCD != 0; e.flags&keyDO != 0 {
		q.Msg.SetEdns0(udpSize, true)
	}
	c.prefetched.Add(1)
	c.run(func() {
		defer c.refreshed(q.Name, e)
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		defer cancel()
		_, _ = c.fetch(ctx, q, e.key())
	})
}

// claim reports whether the entry is to be asked for anew. If so nobody else does until refreshed.
func (e *entry) claim(now time.Duration) bool {
	at := e.again.Load()
	return at <= ticks(now) && e.again.CompareAndSwap(at, math.MaxUint32)
}

// ticks are 67 ms each, of which there are nine years in 32 bits.
func ticks(now time.Duration) uint32 { return uint32(now >> 26) }

// isUsable reports whether the entry may be given out, or may as a stale one. A failure is never stale.
func (e *entry) isUsable(now, stale time.Duration) bool {
	if e.isFailure() {
		stale = 0
	}
	return max(0, now-e.stored)-e.life < stale
}

// isNearEnd reports whether the entry is in the last tenth of its life: unbound's rule for prefetch.
func (e *entry) isNearEnd(now time.Duration) bool { return now-e.stored >= e.life-e.life/10 }
