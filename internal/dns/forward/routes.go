package forward

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A table is one immutable state of the routes. Queries that began with it end
// with it, whatever SetRoutes does meanwhile.
type table struct {
	byDomain map[dnsname.Name]*route
	byText   map[string]*route // the same, by the domain in presentation format
	plain    *route            // for names of one label, or nil
	order    []*route          // as configured, for Status
	servers  map[nameserver.Server]*server
}

type route struct {
	Route
	servers []*server
	tallies []*tally     // by servers
	flying  atomic.Int64 // questions in flight
	lines   []line       // of them, by lane; each guarded by its lane.mu
	alone   bool         // there is no other route
	dark    darkness
}

func (r Route) equal(o Route) bool {
	return r.Domain == o.Domain && r.Plain == o.Plain && r.Local == o.Local && r.Source == o.Source && slices.Equal(r.Servers, o.Servers)
}

// SameRoutes reports whether the same names go to the same servers. Another Source changes nothing.
func SameRoutes(a, b []Route) bool {
	return slices.EqualFunc(a, b, func(x, y Route) bool {
		y.Source = x.Source
		return x.equal(y)
	})
}

// Match returns the route that queries for name take, or false.
func (f *Forward) Match(name dnsname.Name) (Route, bool) {
	r := f.table.Load().match(name)
	if r == nil {
		return Route{}, false
	}
	found := r.Route
	found.Servers = slices.Clone(found.Servers)
	return found, true
}

// IsElsewhere reports whether the names of to are asked of other servers than those of from,
// because of a route for their domain. The default route does not count: a domain's own servers may
// know private names in public zones that no other server knows.
func (f *Forward) IsElsewhere(from, to dnsname.Name) bool {
	t := f.table.Load()
	r, other := t.match(from), t.match(to)
	if r == nil || other == nil || other == r || other.Domain.IsRoot() && !other.Plain {
		return false
	}
	return other.Local || !slices.Equal(r.servers, other.servers)
}

// Dark returns a channel that is closed once all servers for a name are known to be silent: an
// answer may come, but not soon. A later question may find a server again, and then there is a new
// channel. nil: no server is asked for the name.
func (f *Forward) Dark(name dnsname.Name) <-chan struct{} {
	r := f.table.Load().match(name)
	if r == nil || r.Local {
		return nil
	}
	return r.dark.now.Load().known
}

// betweenDark is the time between two questions without a waiter while a route is dark. Any name
// shows whether a server is back.
const betweenDark = time.Second / 2

// MayProbe reports whether a name may be asked for without a waiter. While no server answers, one
// name in half a second may.
func (f *Forward) MayProbe(name dnsname.Name) bool {
	r := f.table.Load().match(name)
	if r == nil || !r.dark.is() {
		return true
	}
	now, next := int64(time.Since(f.began)), r.dark.next.Load()
	return now >= next && r.dark.next.CompareAndSwap(next, now+int64(betweenDark))
}

// match walks up from name to the first domain that has a route. It does not
// allocate.
func (t *table) match(name dnsname.Name) *route {
	for zone := name; !zone.IsZero(); zone = zone.Parent() {
		if zone.IsRoot() && t.plain != nil && name.Labels() == 1 {
			return t.plain
		}
		if r := t.byDomain[zone]; r != nil {
			return r
		}
	}
	return nil
}

// matchWire is match for the name in a key. It does not allocate.
func (t *table) matchWire(k exchange.Key) *route {
	var room [exchange.MaxNameSize + 1]byte
	text := k.AppendName(room[:0])
	if t.plain != nil && len(text) > 1 && strings.IndexByte(string(text), '.') == len(text)-1 {
		if r := t.byText[string(text)]; r != nil {
			return r
		}
		return t.plain
	}
	for zone := text; ; {
		if r := t.byText[string(zone)]; r != nil || len(zone) == 1 {
			return r
		}
		for zone[0] != '.' {
			zone = zone[1:]
		}
		if len(zone) > 1 {
			zone = zone[1:] // the last dot stands for the root
		}
	}
}

// like returns the route for the same names as another table's; nil: there is none.
func (t *table) like(r *route) *route {
	if r.Plain {
		return t.plain
	}
	return t.byDomain[r.Domain]
}

// choose returns the first server to ask, the wait for its answer, and whether a probe of another server is due.
func (r *route) choose(now time.Time) (first *server, wait time.Duration, hasProbe bool) {
	best, probes, isFirstProbe := math.MaxInt, 0, false
	for _, s := range r.servers {
		rank, itsWait, mayProbe := s.Standing(now)
		if mayProbe {
			probes++
		}
		if rank < best {
			best, first, wait, isFirstProbe = rank, s, itsWait, mayProbe
		}
	}
	return first, wait, probes > 1 || probes == 1 && !isFirstProbe
}

// at returns the server at an address, or nil.
func (r *route) at(addr netip.Addr) *server {
	for _, s := range r.servers {
		if s.Addr.Addr() == addr {
			return s
		}
	}
	return nil
}

// asker returns the server that sent a query, or nil. It returns nil also for a query that has
// waited in a lane: that was looked at when it came.
func (r *route) asker(q *dnsserver.Query) *server {
	if q.Tried.IsLate() {
		return nil
	}
	return r.at(q.Client.Addr())
}

// darkness is whether all servers of a route are silent. It is known after the first question
// without an answer and the check that follows, long before the log reports an outage, so questions
// for other names need not find it out again.
type darkness struct {
	now  atomic.Pointer[dark]
	next atomic.Int64 // when the next probe without a waiter may go out, as time since Forward.began
}

func (d *darkness) is() bool { return d.now.Load().is }

// become sets the darkness, and reports whether it changed. The caller holds Forward.darkening.
func (d *darkness) become(is bool) (isNew bool) {
	switch before := d.now.Load(); {
	case before.is == is:
		return false
	case is:
		d.now.Store(&dark{known: before.known, is: true})
		close(before.known)
	default:
		d.now.Store(&dark{known: make(chan struct{})})
	}
	return true
}

// dark is one state of a darkness.
type dark struct {
	known chan struct{} // closed once it is known
	is    bool          // it is closed
}
