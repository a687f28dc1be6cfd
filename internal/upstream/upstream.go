// Package upstream holds the captured upstream nameservers: those that a node had before its
// resolv.conf was pointed at the local nameserver, how they are chosen among their sources, and the
// files that keep them.
//
// It is separate from nameserver, which describes one nameserver, and from forward, which queries
// them. It opens no socket and no file.
package upstream

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A Route is a domain whose queries go to other nameservers: a VPN's split DNS, or the cluster
// zone.
type Route struct {
	Domain  dnsname.Name        `json:"domain"`
	Servers []nameserver.Server `json:"servers"`
	// Source is the source of the servers, for display: "NetworkManager tun0 (corp)". It is "" if
	// unknown: files in dnsmasq's format and older records have none. Sets that differ only in
	// their sources are equal.
	Source string `json:"source,omitempty"`
}

// A Set is the upstreams of a node. The zero Set is empty. A Set is a value: methods do not change
// it, and do not share memory with their results.
type Set struct {
	// Servers are the default upstream nameservers, in the order of use.
	Servers []nameserver.Server `json:"servers,omitempty"`
	// Routes are for other domains; the longest suffix wins.
	Routes []Route `json:"routes,omitempty"`
}

// IsEmpty reports whether there are neither servers nor routes.
func (s Set) IsEmpty() bool { return len(s.Servers) == 0 && len(s.Routes) == 0 }

// Equal reports whether both sets mean the same, including the order of servers.
func (s Set) Equal(other Set) bool {
	a, b := s.Normalize(), other.Normalize()
	return slices.Equal(a.Servers, b.Servers) && slices.EqualFunc(a.Routes, b.Routes, equalRoutes)
}

// SameMembers reports whether both sets have the same servers, in any order. The state learned
// about the servers of one set is then valid for the other.
func (s Set) SameMembers(other Set) bool { return maps.Equal(s.unordered(), other.unordered()) }

func equalRoutes(a, b Route) bool {
	return a.Domain == b.Domain && slices.Equal(a.Servers, b.Servers)
}

// unordered returns the members of the normalized set.
func (s Set) unordered() map[member]bool {
	all := map[member]bool{}
	for route, server := range s.Normalize().members() {
		all[member{route.Domain, server}] = true
	}
	return all
}

// Normalize returns the set in its canonical form. Each server occurs once, at its first place.
// Each domain has one route, with the servers of all its routes in order. Routes are sorted by
// domain and have a domain and servers. The servers of a route for the root become default servers,
// after the others. Servers that nameserver.Parse cannot read back are dropped, such as the zero
// Server and those with an invalid zone ID or name.
func (s Set) Normalize() Set { return s.gathered(gatherer{}) }

// limited returns the part of the set within the limits, normalized.
func (s Set) limited() Set { return s.gathered(gatherer{hasLimits: true}) }

func (s Set) gathered(g gatherer) Set {
	for route, server := range s.members() {
		g.add(route, server)
	}
	return g.set()
}

// A member is one server of one domain. The root stands for the default servers.
type member struct {
	domain dnsname.Name
	server nameserver.Server
}

// Limits of a Set from outside. 30,000 servers, each with its state and its probes, made the daemon
// use 158 MB.
const (
	MaxServers = 64  // default servers
	maxRouted  = 512 // servers of all routes together
)

// A gatherer collects servers in order.
type gatherer struct {
	hasLimits bool // no more servers than the limits allow
	servers   []nameserver.Server
	routes    map[string]*Route // by domain
	routed    int               // servers of routes
	seen      map[member]bool
}

// add adds a server of a route's domain, unless it is there already or cannot be. The root's
// servers are default servers. It returns why a limit excludes the server, or "".
func (g *gatherer) add(route Route, server nameserver.Server) string {
	m := member{route.Domain, server}
	isDefault := route.Domain.IsRoot()
	switch {
	case route.Domain.IsZero(), g.seen[m]:
		return ""
	case g.hasLimits && isDefault && len(g.servers) == MaxServers:
		return fmt.Sprintf("more than %d nameservers", MaxServers)
	case g.hasLimits && !isDefault && g.routed == maxRouted:
		return fmt.Sprintf("more than %d nameservers for routes", maxRouted)
	case !readable(server):
		return ""
	}
	if g.seen == nil {
		g.seen, g.routes = map[member]bool{}, map[string]*Route{}
	}
	g.seen[m] = true
	if isDefault {
		g.servers = append(g.servers, server)
		return ""
	}
	g.routed++
	domain := route.Domain.String()
	known := g.routes[domain]
	if known == nil {
		known = &Route{Domain: route.Domain}
		g.routes[domain] = known
	}
	known.Servers = append(known.Servers, server)
	known.Source = cmp.Or(known.Source, route.Source)
	return ""
}

// set returns the servers as a normalized set.
func (g *gatherer) set() Set {
	s := Set{Servers: g.servers}
	for _, domain := range slices.Sorted(maps.Keys(g.routes)) {
		s.Routes = append(s.Routes, *g.routes[domain])
	}
	return s
}

// members yields the servers with their routes, in order. Default servers have a route for the
// root.
func (s Set) members() iter.Seq2[Route, nameserver.Server] {
	return func(yield func(Route, nameserver.Server) bool) {
		for _, route := range append([]Route{{Domain: dnsname.Root(), Servers: s.Servers}}, s.Routes...) {
			for _, server := range route.Servers {
				if !yield(route, server) {
					return
				}
			}
		}
	}
}

// readable reports whether the server's text parses to the same server, so that no file can mean
// another one. All results of nameserver.Parse and FromAddr do.
func readable(server nameserver.Server) bool {
	read, err := nameserver.Parse(server.String())
	return err == nil && read == server
}
