// Package upstream is the captured upstream nameservers: which ones a node had
// before its resolv.conf was pointed at the local nameserver, how they are
// chosen among those who say so, and the files that keep them.
//
// It is apart from nameserver, which says what one nameserver is, and from
// forward, which asks them: nothing here opens a socket or a file.
package upstream

import (
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// A Route is a domain whose queries go to nameservers of its own: a VPN's split
// DNS, or the cluster zone.
type Route struct {
	Domain  dnsname.Name        `json:"domain"`
	Servers []nameserver.Server `json:"servers"`
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
	isNew := func(domain dnsname.Name, server nameserver.Server) bool {
		m := member{domain, server}
		if seen[m] || !readable(server) {
			return false
		}
		seen[m] = true
		return true
	}
	add := func(route Route) {
		for _, server := range route.Servers {
			switch domain := route.Domain; {
			case domain.IsZero() || !isNew(domain, server):
			case domain.IsRoot():
				out.Servers = append(out.Servers, server)
			default:
				routes[domain] = append(routes[domain], server)
			}
		}
	}
	add(Route{Domain: dnsname.Root(), Servers: s.Servers})
	for _, route := range s.Routes {
		add(route)
	}
	for domain, servers := range routes {
		out.Routes = append(out.Routes, Route{Domain: domain, Servers: servers})
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

// readable reports whether the server's text says just this server, so that no
// file says another one. All that nameserver.Parse and FromAddr return are.
func readable(server nameserver.Server) bool {
	read, err := nameserver.Parse(server.String())
	return err == nil && read == server
}
