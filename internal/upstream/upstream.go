// Package upstream is the captured upstream nameservers: which ones a node had
// before its resolv.conf was pointed at the local nameserver, how they are
// chosen among those who say so, and the files that keep them.
//
// It is apart from nameserver, which says what one nameserver is, and from
// forward, which asks them: nothing here opens a socket or a file.
package upstream

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A Route is a domain whose queries go to nameservers of its own: a VPN's split
// DNS, or the cluster zone.
type Route struct {
	Domain  dnsname.Name        `json:"domain"`
	Servers []nameserver.Server `json:"servers"`
	// Source is who named the servers, for people: "NetworkManager tun0 (corp)".
	// "" is not known: a file of dnsmasq's form and older records have none. Two
	// sets whose sources alone differ mean the same.
	Source string `json:"source,omitempty"`
}

// A Set is what a node forwards to. The zero Set is empty. A Set is a value:
// methods do not change it, and share no memory with what they return.
type Set struct {
	// Servers are the default upstream nameservers, in the order to ask them.
	Servers []nameserver.Server `json:"servers,omitempty"`
	// Routes are kept apart from the defaults; the longest suffix wins.
	Routes []Route `json:"routes,omitempty"`
}

// IsEmpty reports whether there are neither servers nor routes.
func (s Set) IsEmpty() bool { return len(s.Servers) == 0 && len(s.Routes) == 0 }

// Equal reports whether both mean the same, the order of servers included.
func (s Set) Equal(other Set) bool {
	a, b := s.Normalize(), other.Normalize()
	return slices.Equal(a.Servers, b.Servers) && slices.EqualFunc(a.Routes, b.Routes, equalRoutes)
}

// SameMembers reports whether both mean the same when the order of servers is
// left out of account: what was learnt from one still holds for the other.
func (s Set) SameMembers(other Set) bool { return s.sorted().Equal(other.sorted()) }

func equalRoutes(a, b Route) bool {
	return a.Domain == b.Domain && slices.Equal(a.Servers, b.Servers)
}

func (s Set) sorted() Set {
	s = s.Normalize()
	slices.SortFunc(s.Servers, compareServers)
	for _, route := range s.Routes {
		slices.SortFunc(route.Servers, compareServers)
	}
	return s
}

func compareServers(a, b nameserver.Server) int { return strings.Compare(a.String(), b.String()) }

// Normalize returns the same Set in its one form: each server once, where it
// first stood; one route a domain, with the servers of all its routes in order;
// routes sorted by domain; none without a domain or servers. A route for the
// root is no route: its servers are default ones, after the others. Servers that
// nameserver.Parse does not read back are dropped: the zero one, and those put
// together by hand with an odd zone id or name.
func (s Set) Normalize() Set {
	var out Set
	routes := map[dnsname.Name][]nameserver.Server{}
	seen := map[member]bool{}
	sources := map[dnsname.Name]string{} // the first of each domain
	for route, server := range s.members() {
		domain := route.Domain
		m := member{domain, server}
		if domain.IsZero() || seen[m] || !readable(server) {
			continue
		}
		seen[m] = true
		sources[domain] = cmp.Or(sources[domain], route.Source)
		if domain.IsRoot() {
			out.Servers = append(out.Servers, server)
		} else {
			routes[domain] = append(routes[domain], server)
		}
	}
	for domain, servers := range routes {
		out.Routes = append(out.Routes, Route{Domain: domain, Servers: servers, Source: sources[domain]})
	}
	slices.SortFunc(out.Routes, func(a, b Route) int {
		return strings.Compare(a.Domain.String(), b.Domain.String())
	})
	return out
}

// A member is one server of one domain; the root's are the default servers.
type member struct {
	domain dnsname.Name
	server nameserver.Server
}

// The most that a Set has when it comes from outside. 30,000 servers, each with
// its state and its probes, took the daemon to 158 MB.
const (
	MaxServers = 64  // default servers
	MaxRouted  = 512 // servers of all routes together
)

// A gatherer takes servers in their order as long as there is room for them.
type gatherer struct {
	set    Set // not normalized
	seen   map[member]bool
	routed int
}

// add takes a server of a route's domain, once; the root's are default servers.
// It says why there is no room, or "".
func (g *gatherer) add(route Route, server nameserver.Server) string {
	domain := route.Domain
	m := member{domain, server}
	switch {
	case g.seen[m]:
		return ""
	case domain.IsRoot() && len(g.set.Servers) == MaxServers:
		return fmt.Sprintf("more than %d nameservers", MaxServers)
	case !domain.IsRoot() && g.routed == MaxRouted:
		return fmt.Sprintf("more than %d nameservers of domains", MaxRouted)
	}
	if g.seen == nil {
		g.seen = map[member]bool{}
	}
	g.seen[m] = true
	if domain.IsRoot() {
		g.set.Servers = append(g.set.Servers, server)
		return ""
	}
	g.routed++
	g.set.Routes = append(g.set.Routes, Route{Domain: domain, Servers: []nameserver.Server{server}, Source: route.Source})
	return ""
}

// limited returns what there is room for, normalized.
func (s Set) limited() Set {
	var g gatherer
	for route, server := range s.members() {
		g.add(route, server)
	}
	return g.set.Normalize()
}

// members are the servers with their routes, in order; of the default ones it is
// that of the root.
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

// readable reports whether the server's text says just this server, so that no
// file says another one. All that nameserver.Parse and FromAddr return are.
func readable(server nameserver.Server) bool {
	read, err := nameserver.Parse(server.String())
	return err == nil && read == server
}
