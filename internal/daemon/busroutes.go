package daemon

import (
	"fmt"
	"slices"

	"github.com/node-dns/node-dns/internal/bus"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/forward"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// addBusRoutes adds what was set over D-Bus. It wins over all else, the cluster's domain included: only root can set it, and
// whoever names that domain means it. A shorter domain, or that of all names, takes nothing from the cluster's.
func (s *serving) addBusRoutes(set bus.State) {
	source := "D-Bus " + set.RulesBy.String()
	for _, route := range dnsmasqconf.Routes(set.Rules) {
		ofCluster := slices.ContainsFunc(s.apexes, route.Domain.Within)
		switch {
		case route.Kind == dnsmasqconf.Ask:
			s.addRoute(route.Domain, s.withoutSelf(route, source), source)
		case route.Kind == dnsmasqconf.Local && ofCluster && s.api != (api{}):
			s.note("/%s/ (%s) is answered by the built-in cluster resolver: that is what is known here", route.Domain.Relative(), source)
		case route.Kind == dnsmasqconf.Local:
			s.routes = append(s.routes, forward.Route{Domain: route.Domain, Local: true, Source: source})
		case !route.Domain.IsRoot():
			s.standard = append(s.standard, route.Domain)
			s.routes = append(s.routes, forward.Route{Domain: route.Domain, Source: source})
		}
		if ofCluster && s.isRouted(route.Domain) {
			s.overrides = append(s.overrides, route.Domain)
			s.note("the cluster's names in %s are not answered as the cluster's: %s", route.Domain, source)
		}
	}
}

// withoutSelf leaves out the addresses that we listen on, as dnsmasq does ("ignoring nameserver - local interface"). OpenShift's
// SDN names 127.0.0.1 for cluster.local and in-addr.arpa: there was its own nameserver. Here we are that, and answer the
// cluster's names anyway; for the others the domain has no servers of its own then.
func (s *serving) withoutSelf(route dnsmasqconf.Route, source string) []nameserver.Server {
	return slices.DeleteFunc(slices.Clone(route.Servers), func(server nameserver.Server) bool {
		if !slices.Contains(s.listen, server.Addr) {
			return false
		}
		s.note("%s for %s (%s) is this node: it is left out, and its names are answered as without it", server, route.Domain, source)
		return true
	})
}

// fillStandard gives the domains that were to be asked of the servers for all names these servers.
func (s *serving) fillStandard() {
	var servers []nameserver.Server
	for _, route := range s.routes {
		if route.Domain.IsRoot() && !route.Plain {
			servers = route.Servers
		}
	}
	for i, route := range s.routes {
		if slices.Contains(s.standard, route.Domain) {
			s.routes[i].Servers = servers
		}
	}
}

// isOverridden reports whether a name of the cluster's goes another way, as was set over D-Bus.
func (s *serving) isOverridden(name dnsname.Name) bool {
	return slices.ContainsFunc(s.overrides, name.Within)
}

func (s *serving) isRouted(domain dnsname.Name) bool {
	return slices.ContainsFunc(s.routes, func(r forward.Route) bool { return r.Domain == domain && !r.Plain })
}

func (s *serving) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}
