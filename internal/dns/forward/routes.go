package forward

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unique"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A table is one immutable snapshot of the routes. A query that began with it also ends with it,
// even if SetRoutes is called in between.
type table struct {
	byDomain map[dnsname.Name]*route
	byText   map[string]*route // the same routes, by the domain in presentation format
	plain    *route            // for names of one label, or nil
	order    []*route          // as configured, for Status
	servers  map[nameserver.Server]*server
}

type route struct {
	Route
	servers []*server
	tallies []*tally     // in the order of servers
	flying  atomic.Int64 // questions in flight
	lines   []line       // questions in flight by lane; each guarded by its lane.mu
	alone   bool         // it is the only route
	reach   reach
}

func (r Route) equal(o Route) bool {
	return r.Domain == o.Domain && r.Plain == o.Plain && r.Local == o.Local && r.Source == o.Source && slices.Equal(r.Servers, o.Servers)
}

// SameRoutes reports whether a and b send the same names to the same servers. It ignores Source.
func SameRoutes(a, b []Route) bool {
	return slices.EqualFunc(a, b, func(x, y Route) bool {
		y.Source = x.Source
		return x.equal(y)
	})
}

// Match returns the route for name, or false if there is none.
func (f *Forward) Match(name dnsname.Name) (Route, bool) {
	r := f.table.Load().match(name)
	if r == nil {
		return Route{}, false
	}
	found := r.Route
	found.Servers = slices.Clone(found.Servers)
	return found, true
}

// IsElsewhere reports whether to has a route of its own with other servers than from. The default
// route does not count: the servers of a domain may know private names in public zones.
func (f *Forward) IsElsewhere(from, to dnsname.Name) bool {
	t := f.table.Load()
	r, other := t.match(from), t.match(to)
	if r == nil || other == nil || other == r || other.Domain.IsRoot() && !other.Plain {
		return false
	}
	return other.Local || !slices.Equal(r.servers, other.servers)
}

// Unreachable returns a channel that is closed once all servers for a name are known to be silent.
// An answer may still arrive, but not soon. When a server answers again, Unreachable returns a new
// channel. It returns nil if no server is queried for the name.
func (f *Forward) Unreachable(name dnsname.Name) <-chan struct{} {
	r := f.table.Load().match(name)
	if r == nil || r.Local {
		return nil
	}
	return r.reach.now.Load().known
}

// betweenProbes is the interval between questions without a waiter while a route is unreachable.
// Any name shows whether a server is back.
const betweenProbes = time.Second / 2

// MayProbe reports whether a name may be queried upstream without a waiter. While no server
// answers, one name every half second may.
func (f *Forward) MayProbe(name dnsname.Name) bool {
	r := f.table.Load().match(name)
	if r == nil || !r.reach.isLost() {
		return true
	}
	now, next := int64(time.Since(f.began)), r.reach.next.Load()
	return now >= next && r.reach.next.CompareAndSwap(next, now+int64(betweenProbes))
}

// match walks up from name to the closest domain with a route. It does not allocate.
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
			zone = zone[1:] // the last dot is the root
		}
	}
}

// like returns the table's route for the same names as r, a route of another table, or nil.
func (t *table) like(r *route) *route {
	if r.Plain {
		return t.plain
	}
	return t.byDomain[r.Domain]
}

// choose returns the first server to query, the wait for its answer, and whether a probe of another
// server is due.
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

// asker returns the server of the route that sent a query, or nil. It also returns nil for a query
// that has waited in a lane, because the lane has checked that already.
func (r *route) asker(q *dnsserver.Query) *server {
	if q.Tried.IsLate() {
		return nil
	}
	return r.at(q.Client.Addr())
}

// SetRoutes replaces all routes at once. A server that already exists keeps its health and its
// connections, in any route. Routes with the same domain are merged in order, without duplicate
// servers. If the routes are unchanged, SetRoutes does nothing, and questions in flight are not
// sent again.
func (f *Forward) SetRoutes(routes []Route) {
	f.setting.Lock()
	defer f.setting.Unlock()
	if f.isSet && slices.EqualFunc(routes, f.routes, Route.equal) {
		return
	}
	f.isSet, f.routes = true, cloneRoutes(routes)
	old := f.table.Load()
	t := &table{
		byDomain: make(map[dnsname.Name]*route, len(routes)),
		byText:   make(map[string]*route, len(routes)),
		servers:  make(map[nameserver.Server]*server),
	}
	for _, r := range routes {
		to := t.route(r)
		for _, address := range r.Servers {
			to.add(t.server(address, old, f))
		}
	}
	for _, r := range t.order {
		r.alone, r.lines = len(t.order) == 1, make([]line, f.most)
		r.keepTallies(old.like(r))
	}
	f.table.Store(t)
	for address, s := range old.servers {
		if t.servers[address] == nil {
			s.retire()
		}
	}
	f.updateReach()
	f.tellOutages()
}

// route returns the table's route for r's domain, creating it if necessary.
func (t *table) route(r Route) *route {
	if r.Domain.IsZero() {
		r.Domain = dnsname.Root()
	}
	to := t.byDomain[r.Domain]
	if r.Plain {
		to = t.plain
	}
	if to == nil {
		to = &route{Route: Route{Domain: r.Domain, Plain: r.Plain, Local: r.Local, Source: r.Source}}
		to.reach.now.Store(&reachState{known: make(chan struct{})})
		if r.Plain {
			t.plain = to
		} else {
			t.byDomain[r.Domain], t.byText[r.Domain.String()] = to, to
		}
		t.order = append(t.order, to)
	}
	return to
}

func (t *table) server(address nameserver.Server, old *table, f *Forward) *server {
	s := t.servers[address]
	if s == nil {
		s = old.servers[address]
	}
	if s == nil {
		s = newServer(address, f)
	}
	t.servers[address] = s
	return s
}

func (r *route) add(s *server) {
	if !slices.Contains(r.servers, s) {
		r.servers = append(r.servers, s)
		r.Servers = append(r.Servers, s.Server)
	}
}

func cloneRoutes(routes []Route) []Route {
	all := slices.Clone(routes)
	for i := range all {
		all[i].Servers = slices.Clone(all[i].Servers)
	}
	return all
}

func newServer(address nameserver.Server, f *Forward) *server {
	s := &server{
		Server: address, handle: unique.Make(address), f: f, log: f.config.Log.With("server", address.String()), Account: exchange.NewAccount(time.Now()),
	}
	if address.TLS {
		s.tls = f.dialer.TLS(address)
	}
	s.setUpgrade(f)
	return s
}

// tlsAddress returns the address where a plain server may speak TLS: port 853 (RFC 7858 section
// 3.1) if the server is at port 53. Another port is another service, and loopback needs no
// encryption.
func tlsAddress(s nameserver.Server) (addr netip.AddrPort, ok bool) {
	addr = netip.AddrPortFrom(s.Addr.Addr(), nameserver.PortTLS)
	return addr, s.Plain() && s.Addr.Port() == nameserver.Port && !s.Addr.Addr().IsLoopback()
}
