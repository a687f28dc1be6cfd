package nm

import (
	"maps"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// claims says which interfaces claim a domain, and with which priority.
type claims map[dnsname.Name][]claim

type claim struct {
	iface    string
	priority int
}

// better reports whether an interface other than iface claims the domain with a better priority.
func (c claims) better(domain dnsname.Name, iface string, priority int) bool {
	for _, other := range c[domain] {
		if other.iface != iface && other.priority < priority {
			return true
		}
	}
	return false
}

// shadowed reports whether another interface claims a parent domain with a better and negative
// priority.
func (c claims) shadowed(domain dnsname.Name, iface string, priority int) bool {
	for above := domain.Parent(); !above.IsZero(); above = above.Parent() {
		if c.better(above, iface, min(priority, 0)) {
			return true
		}
	}
	return false
}

func claimsOf(configs []DNSConfig, gives []bool) claims {
	all := claims{}
	for i, c := range configs {
		own := claim{iface: c.Interface, priority: c.Priority}
		if gives[i] {
			all[dnsname.Root()] = append(all[dnsname.Root()], own)
		}
		for _, d := range c.Domains {
			if !d.Name.IsRoot() {
				all[d.Name] = append(all[d.Name], own)
			}
		}
	}
	return all
}

// domainRoutes returns the routes, in the order in which their domains first occur.
func domainRoutes(configs []DNSConfig, gives []bool) []Route {
	all := claimsOf(configs, gives)
	table := routeTable{at: map[dnsname.Name]int{}}
	addEach := func(want func(i int, d Domain) bool) {
		for i, c := range configs {
			for _, d := range c.Domains {
				if !d.Name.IsRoot() && want(i, d) &&
					!all.better(d.Name, c.Interface, c.Priority) && !all.shadowed(d.Name, c.Interface, c.Priority) {
					table.add(d.Name, c)
				}
			}
		}
	}
	addEach(func(i int, d Domain) bool { return !gives[i] || d.RoutingOnly })
	others := routeTable{routes: table.routes, at: maps.Clone(table.at)}
	addEach(func(i int, d Domain) bool {
		return gives[i] && !d.RoutingOnly && others.covers(d.Name, configs[i].Interface)
	})
	return table.routes
}

type routeTable struct {
	routes []Route
	at     map[dnsname.Name]int // index of the domain's route
}

func (t *routeTable) add(domain dnsname.Name, c DNSConfig) {
	i, ok := t.at[domain]
	if !ok {
		i = len(t.routes)
		t.at[domain] = i
		t.routes = append(t.routes, Route{Domain: domain, Interface: c.Interface})
	}
	t.routes[i].add(c, c.Nameservers)
}

// covers reports whether another interface has a route for the domain or a parent of it.
func (t *routeTable) covers(domain dnsname.Name, iface string) bool {
	for above := domain; !above.IsZero(); above = above.Parent() {
		if i, ok := t.at[above]; ok && t.routes[i].Interface != iface {
			return true
		}
	}
	return false
}
