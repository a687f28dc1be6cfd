package view

import (
	"fmt"
	"strconv"

	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// maxNameserverLines is dnsmasq's SERVERS_LOGGED.
const maxNameserverLines = 30

// NameserverLines returns the lines in which dnsmasq 2.90 logs its servers, because admins and
// monitoring tools look for them. They add nothing to the line that we log before them.
func NameserverLines(routes []forward.Route) (lines []string) {
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

func RouteWords(routes []forward.Route) []string {
	var words []string
	for _, route := range routes {
		var servers []string
		for _, server := range route.Servers {
			servers = append(servers, server.String())
		}
		words = append(words, routeWord(route.Domain, route.Plain)+"="+journal.Few(servers, ","))
	}
	return words
}
