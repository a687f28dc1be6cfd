// Package cache remembers responses, positive and negative, for as long as
// their TTLs allow (RFC 1035 section 7.4, RFC 2308).
//
// It is apart from forward because it knows no servers and no sockets: it asks
// the next handler and decides what of its responses may be given to others. A
// response is remembered whole and for its own question only, never taken apart by
// owner: what a response says about other names is not believed (MaginotDNS,
// 2023), and NXDOMAIN of a name never hides one below it.
package cache

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/percpu"
)

// What zero means in a Config.
const (
	defaultMaxTTL         = 24 * time.Hour // unbound's cache-max-ttl
	defaultMaxNegativeTTL = time.Hour      // unbound's cache-max-negative-ttl; RFC 2308 section 5 finds 1 to 3 hours good
	defaultEntryBytes     = 1024
	minBytes              = 1 << 20
)

// A Config is what a Cache is made of.
type Config struct {
	// Next is asked for what is not remembered. It must not be nil, and what it
	// returns belongs to the cache.
	Next dnsserver.Handler
	// Size bounds the responses remembered (dnsmasq's cache-size, which counts
	// names). 0 or less remembers nothing.
	Size int
	// MaxBytes bounds the memory of the responses. 0 means 1 KiB for each of Size, of
	// which most take 0.2, at least 1 MiB.
	MaxBytes int
	// MaxTTL bounds how long a positive response is remembered, and the TTLs that
	// clients see (dnsmasq's max-cache-ttl). 0 means 24 hours, as in unbound; dnsmasq
	// has no bound of its own.
	MaxTTL time.Duration
	// MaxNegativeTTL is the same for NXDOMAIN and NODATA. 0 means 1 hour, as in
	// unbound; less than 0 remembers none (dnsmasq's no-negcache).
	MaxNegativeTTL time.Duration
	// MinTTL is what a shorter TTL of a positive response is raised to (dnsmasq's
	// min-cache-ttl). 0 means that none is.
	MinTTL time.Duration
	// NegativeTTL is for how long a negative response without SOA record is remembered
	// (dnsmasq's neg-ttl). 0 means not at all.
	NegativeTTL time.Duration
	// Stale is for how long after its TTLs a response is given out once more where the next handler has none (RFC 8767). 0
	// means not at all. A name with a Limit has no stale responses.
	Stale time.Duration
	// StaleAtOnce has it given out without waiting for the next handler, which is asked all the same (dnsmasq's
	// use-stale-cache).
	StaleAtOnce bool
	// Dark returns a channel that is closed once it is known that the next handler has nobody to ask about a name: what is stale is
	// given out at once then, too. It gets what Limit gets, and is called concurrently. nil, and a nil channel, mean that nothing is
	// known.
	Dark func(dnsname.Name) <-chan struct{}
	// MayProbe reports whether the next handler may be asked, while that is known, about a name that nobody waits for. nil means
	// that it may.
	MayProbe func(dnsname.Name) bool
	// Prefetch has a response asked for anew when it is given out in the last tenth of its life, and was before. A name with a Limit is
	// left alone.
	Prefetch bool
	// Go runs a function beside its caller: the next handler is asked so where no client waits for it, or not for long. nil
	// means a goroutine that nobody waits for.
	Go func(func())
	// Limit returns a bound on MaxTTL and MaxNegativeTTL for one qname: 0 means none, less
	// than 0 that the response is not remembered. It gets the zero Name for a
	// qname that is no dnsname.Name, and is called concurrently. nil means no limits.
	Limit func(dnsname.Name) time.Duration
	// Now is the clock, whose times must have a monotonic reading where the wall
	// clock may jump. nil means time.Now.
	Now func() time.Time
}

// A Cache is a dnsserver.Handler that remembers responses, and a dnsserver.WireFunc's part of them. All methods may be
// called concurrently.
type Cache struct {
	next    dnsserver.Handler
	limits  limits
	elapsed func() time.Duration // since the cache was made
	began   time.Time            // zero: elapsed is by a clock of its own
	store   *store               // nil when nothing is remembered
	stale   stale
	run     func(func())

	prefetches bool

	hits, denials                 percpu.Counter // answered from memory: with an answer, and with none
	misses, staleHits, prefetched atomic.Uint64
}

var _ dnsserver.Handler = (*Cache)(nil)

// New returns an empty Cache. It starts nothing.
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
		cache.elapsed = func() time.Duration { return time.Since(cache.began) } // half of what time.Now takes
	}
	if c.Size > 0 {
		if c.MaxBytes <= 0 {
			c.MaxBytes = max(c.Size*defaultEntryBytes, minBytes)
		}
		cache.store = newStore(c.Size, c.MaxBytes, cache.stale.life)
	}
	return cache
}

// ServeDNS answers q from memory, and sets q.Cached, or asks the next handler.
// The caller owns the response. TTLs are counted down in whole seconds and never
// reach 0; those of a response that was just fetched have the same bounds, so that a
// client does not see them jump. The AD bit is the upstream's for everyone;
// dnsserver knows who asked for it (RFC 6840 section 5.8).
//
// A query that has not RD set is answered from memory too, but what the next
// handler says to it is not remembered: it may be a referral.
func (c *Cache) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	if c.store == nil || q.SkipsCache() {
		m, err := c.ask(ctx, q)
		if err == nil && m != nil && len(q.Msg.Question) == 1 {
			c.limits.remember(q, m) // the client gets the TTLs that it would get with a cache
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

// fetch asks the next handler, and remembers what it says.
func (c *Cache) fetch(ctx context.Context, q *dnsserver.Query, k key) (*dns.Msg, error) {
	epoch := c.store.epoch.Load()
	m, err := c.ask(ctx, q)
	if hasFailed(m, err) {
		c.rememberFailure(q, k, m, err, epoch)
	}
	if err != nil || m == nil {
		return m, err
	}
	lifetime := c.limits.remember(q, m) // which limits the TTLs for this client, too
	if !q.Msg.RecursionDesired {
		return m, nil
	}
	e := newEntry(k, q, m, c.elapsed(), lifetime)
	switch {
	case e == nil && m.Rcode <= 0xf: // an extended one needs an OPT record, which entries have not
		c.rememberFailure(q, k, nil, errUnusable, epoch)
		return nil, errUnusable
	case lifetime > 0:
		c.store.put(e, epoch)
	}
	return m, nil
}

// ask asks the next handler, and returns what it says as the client that asks next gets it from memory: not authoritative (see
// entry.response), and with names in the case of the question. Without that they are not packed as pointers to it, and an
// answer of few records to a long name is truncated.
func (c *Cache) ask(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	m, err := c.next.ServeDNS(ctx, q)
	if err != nil || m == nil || len(q.Msg.Question) != 1 {
		return m, err
	}
	m.Authoritative = false
	inQuestionsCase(m, q.Msg.Question[0].Name)
	return m, nil
}

// remembered returns the response to q of a live entry, or the error that it stands for; neither: it cannot be read.
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

// An Entry describes one remembered response.
type Entry struct {
	// Name is the qname; zero when it has octets that no dnsname.Name has.
	Name dnsname.Name
	// QName is the qname in lower case as zone files write it, whatever its octets.
	QName string
	Type  uint16
	Rcode int
	// Server is the upstream nameserver that the response came from; zero when the
	// next handler named none.
	Server nameserver.Server
	// Age is how long it has been remembered, TTL how long it will be; TTL is 0 or
	// less for one that is not given to clients any more.
	Age, TTL time.Duration
}

// Within reports whether the qname is zone or below it, also when it is no
// dnsname.Name.
func (e Entry) Within(zone dnsname.Name) bool {
	if !e.Name.IsZero() {
		return e.Name.Within(zone)
	}
	return !zone.IsZero() && dns.IsSubDomain(zone.String(), e.QName)
}

// Stats are counters since New, and what is remembered now.
type Stats struct {
	Hits       uint64 `json:"hits"`
	Misses     uint64 `json:"misses"`
	Stale      uint64 `json:"stale,omitempty"`      // answered with what had expired; neither hits nor misses
	Prefetched uint64 `json:"prefetched,omitempty"` // asked for anew before they expired
	Insertions uint64 `json:"insertions"`
	Evictions  uint64 `json:"evictions"` // entries forgotten for lack of room that had not expired

	// Of these, those without an answer: NXDOMAIN, NODATA and failures.
	DenialHits, DenialEvictions uint64 `json:"-"`
	Denials                     int    `json:"-"` // of Entries

	Entries  int `json:"entries"`
	Bytes    int `json:"bytes"` // of memory
	Size     int `json:"size"`  // the bound on Entries
	MaxBytes int `json:"maxBytes"`
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	denials := c.denials.Load()
	s := Stats{Hits: c.hits.Load() + denials, DenialHits: denials, Misses: c.misses.Load(), Stale: c.staleHits.Load(), Prefetched: c.prefetched.Load()}
	if c.store != nil {
		c.store.addTo(&s)
	}
	return s
}
