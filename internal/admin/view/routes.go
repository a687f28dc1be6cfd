package view

import (
	"fmt"
	"strconv"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// routeStatus returns the routes with the health of their servers and the source of each route.
func routeStatus(s *policy.Policy, routes []forward.RouteStatus) []control.Route {
	all := []control.Route{}
	for _, route := range routes {
		if route.Source == policy.Guard {
			continue
		}
		r := control.Route{Domain: routeWord(route.Domain, route.Plain), Local: route.Local, Source: route.Source, Rank: rank(s, route)}
		for _, server := range route.Servers {
			r.Servers = append(r.Servers, control.Server{
				Address: server.Server.String(), State: string(server.State), Since: server.Since, RTT: server.RTT,
				Queries: server.Queries, Failures: server.Failures, Refusals: server.Refusals, NXDomain: server.NXDomain,
				Retries: server.Retries, RouteQueries: server.Asked, RouteFailures: server.Failed, Error: server.LastError,
				Transport: string(server.Transport), UDPSize: server.UDPSize,
			})
		}
		all = append(all, r)
	}
	return all
}

// rank returns the name of the source of a route. It is empty if the forwarder still has an older
// route.
func rank(s *policy.Policy, route forward.RouteStatus) string {
	for _, won := range s.Won {
		if won.Domain == route.Domain && won.Plain == route.Plain && won.String() == route.Source {
			return won.Source.String()
		}
	}
	return ""
}

// serversOf returns the nameservers of all routes without duplicates.
func serversOf(routes []forward.RouteStatus) (all []forward.ServerStatus) {
	seen := map[string]bool{}
	for _, route := range routes {
		for _, server := range route.Servers {
			if name := server.Server.String(); !seen[name] {
				seen[name] = true
				all = append(all, server)
			}
		}
	}
	return all
}

// routeWord returns a route's domain. dnsmasq's // stands for names with one label.
func routeWord(domain dnsname.Name, plain bool) string {
	if plain {
		return "//"
	}
	return domain.String()
}

func lossStatus(s *policy.Policy) []control.Loss {
	var all []control.Loss
	for _, lost := range s.Lost {
		l := control.Loss{
			Domain: routeWord(lost.Domain, lost.Plain), Local: lost.Kind == nameserver.Local,
			Source: lost.Claim.String(), Rank: lost.Source.String(), Why: lost.Why, Servers: control.Texts(lost.Servers),
		}
		if lost.Barred == "" && !lost.GaveWay {
			l.By = lost.By.String()
		}
		all = append(all, l)
	}
	return all
}

func refusedStatus(s *policy.Policy) []control.Refused {
	var all []control.Refused
	add := func(c nameserver.Claim) {
		for _, r := range c.Refused {
			all = append(all, control.Refused{Domain: routeWord(c.Domain, c.Plain), Server: r.Server.String(), Source: c.String(), Why: r.Why})
		}
	}
	for _, won := range s.Won {
		add(won.Claim)
	}
	for _, lost := range s.Lost {
		add(lost.Claim)
	}
	return all
}

// maxNameserverLines is dnsmasq's SERVERS_LOGGED.
const maxNameserverLines = 30

// nameserverLines returns the lines in which dnsmasq 2.90 logs its servers, because admins and
// monitoring tools look for them. They add nothing to the line that we log before them.
func nameserverLines(routes []forward.Route) (lines []string) {
	for _, route := range routes {
		what := ""
		switch {
		case route.Plain:
			what = "unqualified names"
		case !route.Domain.IsRoot():
			what = route.Domain.Relative()
		}
		if route.Local {
			lines = append(lines, "using only locally-known addresses for "+what)
			continue
		}
		if what != "" && !route.Plain {
			what = "domain " + what
		}
		for _, server := range route.Servers {
			line := "using nameserver " + server.Addr.Addr().String() + "#" + strconv.Itoa(int(server.Addr.Port()))
			if server.Interface != "" {
				line += "(via " + server.Interface + ")"
			}
			if what != "" {
				line += " for " + what
			}
			lines = append(lines, line)
		}
	}
	if more := len(lines) - maxNameserverLines; more > 0 {
		lines = append(lines[:maxNameserverLines], fmt.Sprintf("using %d more nameservers", more))
	}
	return lines
}

func routeWords(routes []forward.Route) []string {
	var words []string
	for _, route := range routes {
		words = append(words, routeWord(route.Domain, route.Plain)+"="+journal.Few(control.Texts(route.Servers), ","))
	}
	return words
}
