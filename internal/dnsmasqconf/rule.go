package dnsmasqconf

import (
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Kind says how the names of a domain are answered.
type Kind int

const (
	Ask      Kind = iota // by the rule's servers
	Local                // from local records only; other names do not exist
	Standard             // by the servers for all names, although a shorter domain has other ones
)

// A Rule is the meaning of a server= option, or of a string passed to SetDomainServers, for one of
// its domains.
type Rule struct {
	Domain dnsname.Name // including all names below it; the root means all names
	// Plain limits the rule to names without dots, as with server=//IP in a file. Domain is then
	// the root.
	Plain  bool
	Kind   Kind
	Server nameserver.Server // if Kind is Ask
}

// String returns the rule in the syntax of SetDomainServers: "10.0.0.1",
// "/corp.example/10.0.0.1#5353", "/lab.example/", "/x.example/#".
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

// A Route combines all rules for one domain.
type Route struct {
	Domain  dnsname.Name
	Kind    Kind
	Servers []nameserver.Server // if Kind is Ask: in the rules' order, without duplicates
}

// Routes combines the rules by domain, in the order in which the domains first occur. If they
// differ for a domain, "/domain/#" wins over servers, and servers win over "/domain/", as in
// dnsmasq 2.90.
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
