package nm

import (
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A Route names the nameservers for a domain.
type Route struct {
	Domain  dnsname.Name // the root means all names without another route
	Servers []nameserver.Server
	// Interface is the one of the first server in Servers, or "" for a global configuration.
	Interface string
	// Sources name the configurations of Servers, without duplicates.
	Sources []string
}

// add adds the servers of configuration c that the route does not have yet.
func (r *Route) add(c DNSConfig, servers []nameserver.Server) {
	before := len(r.Servers)
	if r.Servers = appendNew(r.Servers, servers); len(r.Servers) > before && !slices.Contains(r.Sources, c.Source()) {
		r.Sources = append(r.Sources, c.Source())
	}
}

// Source returns the name of the configuration for display: "eth0 (System eth0)".
func (c DNSConfig) Source() string {
	switch {
	case c.Global:
		return "global-dns (NetworkManager.conf)"
	case c.Connection == "":
		return c.Interface
	}
	return c.Interface + " (" + c.Connection + ")"
}

// Upstreams splits the configurations into the route for the root, with the default upstream
// nameservers, and one route for each other domain. defaultInterfaces are the interfaces with the
// kernel's preferred default routes.
//
// The rules are those that NetworkManager applies for a resolver that supports split DNS (man
// nm-settings, dns-priority and dns-search; _mgr_configs_data_construct in nm-dns-manager.c). They
// apply with any dns= setting, because node-dns supports split DNS:
//
//   - A configuration gives defaults if its interface has a default route, if it has the wildcard
//     domain "~.", or if it is the global one for all names. So does one with a negative priority
//     and no domain, which can mean nothing else. If there is none of these, the configurations
//     give defaults that are not a VPN's and have no routing-only domains. Otherwise it is those
//     that are not a VPN's, or else all. So there are defaults whenever a nameserver is known.
//   - If the best priority among them is negative, only those with that priority count.
//   - Every other configuration gives a route for each of its domains. Those that give defaults
//     get routes for their routing-only domains, and for a search domain only if it lies within
//     another interface's route.
//   - If two interfaces have the same domain, the better priority wins. With equal priorities both
//     count. A domain below one of another interface with a better, negative priority is dropped.
//     Configurations that give defaults have the root.
//   - If there is a global configuration, the connections' ones do not count.
//
// Both the IPv4 and the IPv6 configuration of an interface count. The servers of a connection's
// profile come before those of the network, across both families: ipv6.dns before the nameservers
// of DHCPv4.
func (s Snapshot) Upstreams(defaultInterfaces []string) (defaults Route, routes []Route) {
	defaults.Domain = dnsname.Root()
	configs := named(s.Configs)
	gives := givers(configs, defaultInterfaces)
	for i, c := range configs {
		if !gives[i] {
			continue
		}
		for j, other := range configs[i:] {
			if gives[i+j] && other.Interface == c.Interface && other.Priority == c.Priority {
				defaults.add(other, other.Static)
			}
		}
		defaults.add(c, c.Nameservers)
	}
	return defaults, domainRoutes(configs, gives)
}

// named returns the effective configurations that name a server.
func named(configs []DNSConfig) []DNSConfig {
	return slices.DeleteFunc(inForce(configs), func(c DNSConfig) bool { return len(c.Nameservers) == 0 })
}

// inForce drops the connections' configurations if there is a global one, which overrides them (man
// NetworkManager.conf, "global-dns-domain"). 1.42.4 still lists them after it.
func inForce(configs []DNSConfig) []DNSConfig {
	global := slices.ContainsFunc(configs, func(c DNSConfig) bool { return c.Global && len(c.Nameservers) > 0 })
	var list []DNSConfig
	for _, c := range configs {
		if c.Global == global {
			list = append(list, c)
		}
	}
	return list
}

// givers reports for each configuration whether its servers are default upstreams.
func givers(configs []DNSConfig, defaultInterfaces []string) []bool {
	gives := which(configs, func(c DNSConfig) bool {
		return slices.Contains(defaultInterfaces, c.Interface) || c.wildcard() || c.exclusive()
	})
	for _, fallback := range []func(DNSConfig) bool{
		func(c DNSConfig) bool { return !c.VPN && !slices.ContainsFunc(c.Domains, isRoutingOnly) },
		func(c DNSConfig) bool { return !c.VPN },
		func(DNSConfig) bool { return true },
	} {
		if !slices.Contains(gives, true) {
			gives = which(configs, fallback)
		}
	}
	best := 0
	for i, c := range configs {
		if gives[i] {
			best = min(best, c.Priority)
		}
	}
	for i, c := range configs {
		gives[i] = gives[i] && (best == 0 || c.Priority == best)
	}
	return gives
}

func which(configs []DNSConfig, is func(DNSConfig) bool) []bool {
	marks := make([]bool, len(configs))
	for i, c := range configs {
		marks[i] = is(c)
	}
	return marks
}

func isRoutingOnly(d Domain) bool { return d.RoutingOnly }

// wildcard reports whether c is explicitly for all names.
func (c DNSConfig) wildcard() bool {
	if c.Global && len(c.Domains) == 0 {
		return true
	}
	return slices.ContainsFunc(c.Domains, Domain.isWildcard)
}

// exclusive reports whether c is meant to be the only one. A nameserver set on lo is a local
// resolver, maybe node-dns, which is not its own upstream.
func (c DNSConfig) exclusive() bool {
	return c.Priority < 0 && len(c.Domains) == 0 && c.Interface != "lo"
}

func appendNew(list, servers []nameserver.Server) []nameserver.Server {
	for _, server := range servers {
		if !slices.Contains(list, server) {
			list = append(list, server)
		}
	}
	return list
}
