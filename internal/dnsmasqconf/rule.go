package dnsmasqconf

import (
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Kind is what is done with the names of a domain.
type Kind int

const (
	Ask      Kind = iota // they are asked of servers
	Local                // they are answered from what is known here, or do not exist
	Standard             // they are asked of the servers for all names, although a shorter domain has its own
)

// A Rule is what a server= option, or a text of SetDomainServers, says of one of its domains.
type Rule struct {
	Domain dnsname.Name // and all below it; the root: all names
	// Plain is for names without dots alone, server=//IP of a file. Domain is the root then.
	Plain  bool
	Kind   Kind
	Server nameserver.Server // of Kind Ask
}

// String is the rule as SetDomainServers takes it: "10.0.0.1", "/corp.example/10.0.0.1#5353", "/lab.example/", "/x.example/#".
func (r Rule) String() string {
	what := r.Server.Dnsmasq()
	switch r.Kind {
	case Local:
		what = ""
	case Standard:
		what = "#"
	}
	switch {
	case !r.Domain.IsRoot():
		return fmt.Sprintf("/%s/%s", r.Domain.Relative(), what)
	case r.Kind == Local:
		return "//"
	}
	return what
}

// A Route is all that the rules say of one domain.
type Route struct {
	Domain  dnsname.Name
	Kind    Kind
	Servers []nameserver.Server // of Kind Ask, in the rules' order, each once
}

// Routes puts the rules together by domain, in the order in which the domains come first. Where they say different things of
// a domain, "/domain/#" wins over servers and these over "/domain/", as in dnsmasq 2.90.
func Routes(rules []Rule) []Route {
	var routes []Route
	at := map[dnsname.Name]int{}
	for _, rule := range rules {
		i, known := at[rule.Domain]
		if !known {
			i = len(routes)
			at[rule.Domain] = i
			routes = append(routes, Route{Domain: rule.Domain, Kind: Local})
		}
		switch route := &routes[i]; {
		case rule.Kind == Standard:
			*route = Route{Domain: rule.Domain, Kind: Standard}
		case rule.Kind == Ask && route.Kind != Standard && !slices.Contains(route.Servers, rule.Server):
			route.Kind, route.Servers = Ask, append(route.Servers, rule.Server)
		}
	}
	return routes
}
