// Package upstream is the captured upstream nameservers: which ones a node had
// before its resolv.conf was pointed at the local nameserver, how they are
// chosen among those who say so, and the files that keep them.
//
// It is apart from nameserver, which says what one nameserver is, and from
// forward, which asks them: nothing here opens a socket or a file.
package upstream

import (
	"cmp"
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
// root is no route: its servers are default ones, after the others. Zero servers
// are dropped.
func (s Set) Normalize() Set {
	var out Set
	domains := map[dnsname.Name][]nameserver.Server{}
	for _, server := range s.Servers {
		out.Servers = appendNew(out.Servers, server)
	}
	for _, route := range s.Routes {
		for _, server := range route.Servers {
			switch {
			case route.Domain.IsRoot():
				out.Servers = appendNew(out.Servers, server)
			case !route.Domain.IsZero() && !server.IsZero():
				domains[route.Domain] = appendNew(domains[route.Domain], server)
			}
		}
	}
	for domain, servers := range domains {
		out.Routes = append(out.Routes, Route{Domain: domain, Servers: servers})
	}
	slices.SortFunc(out.Routes, func(a, b Route) int {
		return cmp.Compare(a.Domain.String(), b.Domain.String())
	})
	return out
}

func appendNew(servers []nameserver.Server, server nameserver.Server) []nameserver.Server {
	if server.IsZero() || slices.Contains(servers, server) {
		return servers
	}
	return append(servers, server)
}
