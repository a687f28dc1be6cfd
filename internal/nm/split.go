package nm

import (
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A Route says which nameservers know a domain.
type Route struct {
	Domain  dnsname.Name // the root: all names that no other route has
	Servers []nameserver.Server
	// Interface is the one that the first of Servers belongs to; "" for a global
	// configuration.
	Interface string
	// Sources name the configurations that Servers are from, each once.
	Sources []string
}

// add takes the configuration's servers over, those that the route does not have.
func (r *Route) add(c DNSConfig, servers []nameserver.Server) {
	before := len(r.Servers)
	if r.Servers = appendNew(r.Servers, servers); len(r.Servers) > before && !slices.Contains(r.Sources, c.Source()) {
		r.Sources = append(r.Sources, c.Source())
	}
}

// Source names the configuration for people: "eth0 (System eth0)".
func (c DNSConfig) Source() string {
	switch {
	case c.Global:
		return "global-dns (NetworkManager.conf)"
	case c.Connection == "":
		return c.Interface
	}
	return c.Interface + " (" + c.Connection + ")"
}

// Upstreams splits the configurations into the route for the root, which has the
// default upstream nameservers, and the domain routes, one for each domain. defaultInterfaces are the interfaces
// that carry the kernel's preferred default routes.
//
// The rules are those that NetworkManager follows with a resolver that can split
// (man nm-settings, dns-priority and dns-search; _mgr_configs_data_construct in
// nm-dns-manager.c), whatever its dns= setting is, because node-dns is one:
//
//   - A configuration gives defaults when its interface carries a default route,
//     when it has the wildcard domain "~.", or when it is the global one for all
//     names. So does one that has a negative priority and no domain, since there
//     is nothing else that it could mean. If there is none of these, those that
//     are not a VPN's and have no routing-only domains give them, else those that
//     are not a VPN's, else all: where any nameserver is known, there are defaults.
//   - Of those, if the best priority is negative, only the ones that have it count.
//   - Every other configuration gives a route for each of its domains. Those that
//     give defaults make routes of their routing-only domains, and of a search
//     domain only where it lies within another interface's route.
//   - Of two interfaces with the same domain the better priority has it; with
//     equal priorities both do. A domain beneath one of another interface with a
//     better, negative priority is dropped. What gives defaults has the root.
//   - Where there is a global configuration, the connections' do not count.
//
// IPv4 and IPv6 configurations of one interface stand for each other: both count. What the
// connection's profile sets comes before what the network offers, over both: ipv6.dns before
// the nameservers of DHCPv4.
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

// named are the configurations in force that name a server.
func named(configs []DNSConfig) []DNSConfig {
	return slices.DeleteFunc(inForce(configs), func(c DNSConfig) bool { return len(c.Nameservers) == 0 })
}

// inForce drops the connections' configurations where there is a global one, which
// overrides them (man NetworkManager.conf, "global-dns-domain"). 1.42.4 lists them
// behind it all the same.
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

// givers says for each configuration whether it gives defaults.
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

// wildcard reports whether c is for all names by its own word.
func (c DNSConfig) wildcard() bool {
	if c.Global && len(c.Domains) == 0 {
		return true
	}
	return slices.ContainsFunc(c.Domains, Domain.isWildcard)
}

// exclusive reports whether c is meant to be the only one. A nameserver set on lo
// is a local resolver, maybe node-dns, which is no upstream of itself.
func (c DNSConfig) exclusive() bool {
	return c.Priority < 0 && len(c.Domains) == 0 && c.Interface != "lo"
}

// appendNew appends the servers that are not yet in list.
func appendNew(list, servers []nameserver.Server) []nameserver.Server {
	for _, server := range servers {
		if !slices.Contains(list, server) {
			list = append(list, server)
		}
	}
	return list
}
