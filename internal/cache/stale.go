package cache

import (
	"context"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
)

// refreshTimeout is how long a response may take that replaces a stale one. dnsserver gives a client's query as long.
const refreshTimeout = 5 * time.Second

// staleResponse returns the response to q of an entry whose TTLs have ended, if that may still be given out, and has it replaced;
// nil: it may not. Its TTLs are 0, as dnsmasq's, so that a client asks again; RFC 8767 section 4 recommends 30 s.
func (c *Cache) staleResponse(q *dnsserver.Query, e *entry, now time.Duration) *dns.Msg {
	if c.stale == 0 || !e.isUsable(now, c.stale) || c.limits.limit(q.Name) != 0 {
		return nil
	}
	m := e.response(q, 0)
	if m == nil {
		return nil
	}
	c.staleHits.Add(1)
	c.refresh(q, e)
	eachTTL(m, func(uint32) uint32 { return 0 })
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer}}
	m.Extra = append(m.Extra, opt)
	return m
}

// refresh asks for a response anew, unless that is under way. Where nobody has one, the stale one stays. As many are under way
// as there are entries at most; the next handler has its own bound.
func (c *Cache) refresh(q *dnsserver.Query, e *entry) {
	if !q.Msg.RecursionDesired || !e.refreshing.CompareAndSwap(false, true) {
		return // without RD nothing would be remembered
	}
	again := &dnsserver.Query{Msg: q.Msg, Name: q.Name, Client: q.Client, Local: q.Local, Proto: q.Proto}
	c.run(func() {
		defer e.refreshing.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		defer cancel()
		_, _ = c.fetch(ctx, again, e.key()) // the client has its answer
	})
}

// isUsable reports whether the entry may be given out, or may as a stale one.
func (e *entry) isUsable(now, stale time.Duration) bool {
	return max(0, now-e.stored)-e.life < stale
}
