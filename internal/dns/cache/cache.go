// Package cache stores positive and negative responses for as long as their TTLs allow (RFC 1035
// section 7.4, RFC 2308).
//
// It is separate from forward because it knows no servers and no sockets: it queries the next
// handler and decides which responses other clients may get. A response is stored whole and only
// for its own question, never split by owner name. The cache never trusts what a response says
// about other names (MaginotDNS, 2023), and NXDOMAIN of a name never hides a name below it.
package cache

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/stats"
)

// Defaults for zero values in a Config.
const (
	defaultMaxTTL = 24 * time.Hour // unbound's cache-max-ttl
	// Unbound's cache-max-negative-ttl; RFC 2308 section 5 recommends 1 to 3 hours.
	defaultMaxNegativeTTL = time.Hour
	defaultEntryBytes     = 1024
	minBytes              = 1 << 20
)

// A Config configures a Cache.
type Config struct {
	// Next is the handler for cache misses. It must not be nil. The cache owns the responses that
	// it returns.
	Next dnsserver.Handler
	// Size is the maximum number of stored responses (dnsmasq's cache-size, which counts names). 0
	// or less disables the cache.
	Size int
	// MaxBytes is the maximum memory of the stored responses. 0 means 1 KiB per response in Size,
	// at least 1 MiB; most responses take 0.2 KiB.
	MaxBytes int
	// MaxTTL limits how long a positive response is stored, and the TTLs that clients see
	// (dnsmasq's max-cache-ttl). 0 means 24 hours, as in unbound. dnsmasq has no limit by default.
	MaxTTL time.Duration
	// MaxNegativeTTL is the same for NXDOMAIN and NODATA. 0 means 1 hour, as in unbound. A negative
	// value disables negative caching (dnsmasq's no-negcache).
	MaxNegativeTTL time.Duration
	// MinTTL raises shorter TTLs of positive responses (dnsmasq's min-cache-ttl). 0 disables it.
	MinTTL time.Duration
	// NegativeTTL is how long a negative response without an SOA record is stored (dnsmasq's
	// neg-ttl). 0 means not at all.
	NegativeTTL time.Duration
	// Stale is how long after its TTLs a response may still be served if the next handler has
	// none (RFC 8767). 0 disables it. Names with a Limit have no stale responses.
	Stale time.Duration
	// StaleAtOnce serves a stale response without waiting for the next handler, which is still
	// asked (dnsmasq's use-stale-cache).
	StaleAtOnce bool
	// Unreachable returns a channel that is closed once the next handler is known to have no
	// working server for a name. In that case a stale response is served at once as well. It gets
	// the same argument as Limit and is called concurrently. nil, or a nil channel, means that
	// nothing is known.
	Unreachable func(dnsname.Name) <-chan struct{}
	// MayProbe reports whether, while a name is unreachable, the next handler may be queried for it
	// without a waiting client. nil always allows it.
	MayProbe func(dnsname.Name) bool
	// Prefetch refreshes a response that is used in the last tenth of its lifetime and was used
	// before. It skips names with a Limit.
	Prefetch bool
	// Go runs a function concurrently. It is used to query the next handler when no client waits,
	// or not for long. nil starts a goroutine that is never waited for.
	Go func(func())
	// Limit returns an additional limit on MaxTTL and MaxNegativeTTL for one qname. 0 means no
	// limit; a negative value means that the response is not stored. It gets the zero Name for a
	// qname that is not a valid dnsname.Name, and is called concurrently. nil means no limits.
	Limit func(dnsname.Name) time.Duration
	// Now returns the current time. The times must have a monotonic reading if the wall clock may
	// jump. nil means time.Now.
	Now func() time.Time
}

// A Cache is a dnsserver.Handler that stores responses. It also serves a dnsserver.WireFunc. All
// methods may be called concurrently.
type Cache struct {
	next    dnsserver.Handler
	limits  limits
	elapsed func() time.Duration // since New
	began   time.Time            // zero if elapsed uses another clock
	store   *store               // nil if the cache is disabled
	stale   stale
	run     func(func())

	prefetches bool

	hits, denials                 stats.Counter // hits with and without an answer in the response
	misses, staleHits, prefetched atomic.Uint64

	refetches atomic.Int32 // queries without a waiting client
}

var _ dnsserver.Handler = (*Cache)(nil)

// New returns an empty Cache. It starts no goroutines.
func New(c Config) *Cache {
	cache := &Cache{next: c.Next, limits: newLimits(c), stale: newStale(c), run: c.Go, prefetches: c.Prefetch}
	if cache.run == nil {
		cache.run = func(f func()) { go f() }
	}
	if c.Now != nil {
		began := c.Now()
		cache.elapsed = func() time.Duration { return c.Now().Sub(began) }
	} else {
		cache.began = time.Now()
		cache.elapsed = func() time.Duration { return time.Since(cache.began) } // half the cost of time.Now
	}
	if c.Size > 0 {
		if c.MaxBytes <= 0 {
			c.MaxBytes = max(c.Size*defaultEntryBytes, minBytes)
		}
		cache.store = newStore(c.Size, c.MaxBytes, cache.stale.life)
	}
	return cache
}

// ServeDNS answers q from the cache and sets q.Cached, or queries the next handler. The caller owns
// the response. TTLs count down in whole seconds and never reach 0. The TTLs of a new response have
// the same limits, so that clients see no jump. ServeDNS passes on the upstream's AD bit; dnsserver
// decides which clients see it (RFC 6840 section 5.8).
//
// A query without RD is answered from the cache, too, but a response from the next handler is not
// stored: it may be a referral.
func (c *Cache) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	if c.store == nil || q.SkipsCache() {
		m, err := c.ask(ctx, q)
		if err == nil && m != nil && len(q.Msg.Question) == 1 {
			c.limits.remember(q, m) // the client gets the same TTLs as with a cache
		}
		return m, err
	}
	var room room
	k, ok := room.parsedKey(q.Msg)
	if !ok {
		return c.ask(ctx, q)
	}
	e, wasVisited := c.store.get(k)
	now := c.elapsed()
	switch {
	case e == nil:
	case e.isLive(now):
		m, err := c.remembered(e, q, now, wasVisited)
		if m != nil || err != nil {
			return m, err
		}
	case c.mayBeStale(q, e, now):
		return c.serveStale(ctx, q, e)
	}
	c.misses.Add(1)
	return c.fetch(ctx, q, k)
}

// fetch queries the next handler and stores its response.
func (c *Cache) fetch(ctx context.Context, q *dnsserver.Query, k key) (*dns.Msg, error) {
	epoch := c.store.epoch.Load()
	if q.Tried != nil && !q.Tried.IsLate() {
		epoch = q.Tried.Tag // it was sent before
	}
	m, err := c.ask(ctx, q)
	if hasFailed(m, err) {
		c.rememberFailure(q, k, m, err, epoch)
	}
	if err != nil || m == nil {
		return m, err
	}
	lifetime := c.limits.remember(q, m) // also limits the TTLs for this client
	if !q.Msg.RecursionDesired {
		return m, nil
	}
	e := newEntry(k, q, m, c.elapsed(), lifetime)
	switch {
	case e == nil && m.Rcode <= 0xf: // an extended rcode needs an OPT record, which entries do not have
		c.rememberFailure(q, k, nil, errUnusable, epoch)
		return nil, errUnusable
	case lifetime > 0:
		c.store.put(e, epoch)
	}
	return m, nil
}

// ask queries the next handler and returns its response as later clients get it from the cache: not
// authoritative (see entry.response) and with names in the letter case of the question. Otherwise
// the names are not compressed to pointers to the question, and a short answer to a long name is
// truncated.
func (c *Cache) ask(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	m, err := c.next.ServeDNS(ctx, q)
	if err != nil || m == nil || len(q.Msg.Question) != 1 {
		return m, err
	}
	m.Authoritative = false
	inQuestionsCase(m, q.Msg.Question[0].Name)
	return m, nil
}

// remembered returns the response to q of a live entry, or the error of a stored failure. It
// returns neither if the entry cannot be parsed.
func (c *Cache) remembered(e *entry, q *dnsserver.Query, now time.Duration, wasVisited bool) (*dns.Msg, error) {
	if e.isFailure() {
		q.Cached, q.Age, q.AnsweredBy = true, max(0, now-e.stored), e.server.Value()
		c.hit(e)
		return nil, e.failure()
	}
	age, _ := e.age(now)
	m := e.response(q, age)
	if m == nil {
		return nil, nil
	}
	q.Cached, q.Age, q.AnsweredBy = true, max(0, now-e.stored), e.server.Value()
	c.hit(e)
	if c.prefetches && wasVisited && e.isNearEnd(now) {
		c.prefetch(e)
	}
	return m, nil
}

func (c *Cache) hit(e *entry) {
	if e.isDenial() {
		c.denials.Add()
	} else {
		c.hits.Add()
	}
}

// An Entry describes one stored response.
type Entry struct {
	// Name is the qname. It is zero if the qname is not a valid dnsname.Name.
	Name dnsname.Name
	// QName is the qname in lower case and in presentation format, regardless of its bytes.
	QName string
	Type  uint16
	Rcode int
	// Server is the upstream nameserver that sent the response. It is zero if the next handler
	// named none.
	Server nameserver.Server
	// Age is the time since the response was stored, and TTL the remaining lifetime. A TTL of 0 or
	// less means that clients no longer get it.
	Age, TTL time.Duration
}

// Within reports whether the qname is zone or below it, even if it is not a valid dnsname.Name.
func (e Entry) Within(zone dnsname.Name) bool {
	if !e.Name.IsZero() {
		return e.Name.Within(zone)
	}
	return !zone.IsZero() && dns.IsSubDomain(zone.String(), e.QName)
}

// Stats holds counters since New, and the current size of the cache.
type Stats struct {
	Hits       uint64 `json:"hits"`
	Misses     uint64 `json:"misses"`
	Stale      uint64 `json:"stale,omitempty"`      // stale responses given out; neither hits nor misses
	Prefetched uint64 `json:"prefetched,omitempty"` // refreshed before they expired
	Insertions uint64 `json:"insertions"`
	Evictions  uint64 `json:"evictions"` // live entries removed to make room

	// Of the above, those without an answer: NXDOMAIN, NODATA and failures.
	DenialHits, DenialEvictions uint64 `json:"-"`
	Denials                     int    `json:"-"` // of Entries

	Entries  int `json:"entries"`
	Bytes    int `json:"bytes"` // memory
	Size     int `json:"size"`  // maximum of Entries
	MaxBytes int `json:"maxBytes"`
}

// Stats returns the current counters.
func (c *Cache) Stats() Stats {
	denials := c.denials.Load()
	s := Stats{Hits: c.hits.Load() + denials, DenialHits: denials, Misses: c.misses.Load(), Stale: c.staleHits.Load(), Prefetched: c.prefetched.Load()}
	if c.store != nil {
		c.store.addTo(&s)
	}
	return s
}
