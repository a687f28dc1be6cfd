package forward

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A table is one immutable state of the routes. Queries that began with it end
// with it, whatever SetRoutes does meanwhile.
type table struct {
	byDomain map[dnsname.Name]*route
	byText   map[string]*route // the same, by the domain in presentation format
	plain    *route            // for names of one label; nil: none
	order    []*route          // as configured, for Status
	servers  map[nameserver.Server]*server
}

type route struct {
	Route
	servers []*server
	flying  atomic.Int64 // questions in flight
	lines   []line       // of them, by lane; each guarded by its lane.mu
	alone   bool         // there is no other route
	dark    darkness
}

// SetRoutes replaces all routes at once. A server that was there before keeps its
// health and its connections, whichever route it was in. Routes of one domain
// are joined in order, and a server counts once in a route. Routes that are as they were are left alone: a question in
// flight is not asked once more because somebody looked.
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
	}
	f.table.Store(t)
	for address, s := range old.servers {
		if t.servers[address] == nil {
			s.retire()
		}
	}
	f.darken()
	f.tellOutages()
}

func (r Route) equal(o Route) bool {
	return r.Domain == o.Domain && r.Plain == o.Plain && r.Local == o.Local && r.Source == o.Source && slices.Equal(r.Servers, o.Servers)
}

func cloneRoutes(routes []Route) []Route {
	all := slices.Clone(routes)
	for i := range all {
		all[i].Servers = slices.Clone(all[i].Servers)
	}
	return all
}

// route returns the table's route for r's domain, making it when there is none.
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
		to.dark.now.Store(&dark{known: make(chan struct{})})
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

// Match returns the route that queries for name take, false when there is none.
func (f *Forward) Match(name dnsname.Name) (Route, bool) {
	r := f.table.Load().match(name)
	if r == nil {
		return Route{}, false
	}
	found := r.Route
	found.Servers = slices.Clone(found.Servers)
	return found, true
}

// IsElsewhere reports whether the names of to are asked of other servers than those of from, because of a route for their domain. The
// default route is none: what a domain's own servers say of names that no domain has is theirs to say, as private names in public zones
// are known to them alone.
func (f *Forward) IsElsewhere(from, to dnsname.Name) bool {
	t := f.table.Load()
	r, other := t.match(from), t.match(to)
	if r == nil || other == nil || other == r || other.Domain.IsRoot() && !other.Plain {
		return false
	}
	return other.Local || !slices.Equal(r.servers, other.servers)
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
