package forward

import (
	"net/netip"
	"slices"
	"time"
	"unique"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/health"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// SetRoutes replaces all routes at once. A server that was there before keeps its health and its
// connections, whichever route it was in. Routes of one domain are joined in order, and a server
// counts once in a route. If nothing has changed, all routes stay: questions in flight are not
// asked again.
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
		r.goOnCounting(old.like(r))
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

// route returns the table's route for r's domain, and makes it if it is missing.
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

func cloneRoutes(routes []Route) []Route {
	all := slices.Clone(routes)
	for i := range all {
		all[i].Servers = slices.Clone(all[i].Servers)
	}
	return all
}

func newServer(address nameserver.Server, f *Forward) *server {
	s := &server{
		Server: address, handle: unique.Make(address), log: f.log, news: f.tellOutages, changed: f.changed, shifted: f.darken,
		Account: health.New(time.Now()),
	}
	if address.TLS {
		s.tls = f.dialer.TLS(address)
	}
	s.setUpgrade(f)
	return s
}

// tlsAddress is where a plain server may speak TLS: at port 853 of its address (RFC 7858 section
// 3.1), if it is at port 53. Another port is another service, and loopback needs no encryption.
func tlsAddress(s nameserver.Server) (addr netip.AddrPort, ok bool) {
	addr = netip.AddrPortFrom(s.Addr.Addr(), nameserver.PortTLS)
	return addr, s.Plain() && s.Addr.Port() == nameserver.Port && !s.Addr.Addr().IsLoopback()
}
