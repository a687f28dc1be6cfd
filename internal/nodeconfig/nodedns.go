package nodeconfig

import (
	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Limits of the numbers in node-dns.yaml.
const (
	maxCacheSize     = 10_000_000
	maxServeStale    = 7 * 24 * 60 * 60 // RFC 8767 section 4
	maxDNSForwardMax = 1_000_000
	maxClientRate    = 1_000_000
)

// DBus selects the names to own on the system bus.
type DBus string

// Values of dbus.
const (
	DBusDnsmasq DBus = "dnsmasq"  // dnsmasq's name, through which other programs set servers, and our own
	DBusNodeDNS DBus = "node-dns" // only our own name, through which no program can set servers
	DBusNone    DBus = "none"
)

var asDBus = syntax[DBus]{"dnsmasq, node-dns or none", parseWord(DBusDnsmasq, DBusNodeDNS, DBusNone)}

// ResolvConf selects how the host's own resolution is pointed to this node.
type ResolvConf string

// Values of resolvConf.
const (
	ResolvConfFile     ResolvConf = "file"     // /etc/resolv.conf names this node
	ResolvConfResolved ResolvConf = "resolved" // systemd-resolved forwards to this node; /etc/resolv.conf stays its stub
	ResolvConfAuto     ResolvConf = "auto"     // resolved if /etc/resolv.conf is its stub, else file
	ResolvConfNone     ResolvConf = "none"     // neither: the admin manages the file
)

var asResolvConf = syntax[ResolvConf]{
	"file, resolved, auto or none", parseWord(ResolvConfFile, ResolvConfResolved, ResolvConfAuto, ResolvConfNone),
}

// DNSOverTLS selects whether upstreams configured as plain are queried over TLS.
type DNSOverTLS string

// Values of dnsOverTLS.
const (
	DNSOverTLSNo            DNSOverTLS = "no"            // only those written as dns+tls://
	DNSOverTLSOpportunistic DNSOverTLS = "opportunistic" // if the server supports it, without authentication
)

var asDNSOverTLS = syntax[DNSOverTLS]{"no or opportunistic", parseWord(DNSOverTLSNo, DNSOverTLSOpportunistic)}

// nodeDNSKeys are the keys of node-dns.yaml. packaging/node-dns.yaml explains each of them.
var nodeDNSKeys = append([]key[Config]{
	{name: "listen", read: readListen},
	{name: "upstreams", read: func(r *reader, v value, c *Config) { c.Upstreams, _ = many(r, v, maxServers, asServer) }},
	{name: "routes", read: readRoutes},
	{name: "domainNeeded", read: func(r *reader, v value, c *Config) { c.DomainNeeded = r.boolean(v) }},
	{name: "clusterDomain", read: readClusterDomain},
	{name: "clusterDNS", read: func(r *reader, v value, c *Config) { c.ClusterDNS, _ = many(r, v, maxServers, asIPOrIPPort) }},
	{name: "serviceCIDRs", read: func(r *reader, v value, c *Config) { c.ServiceCIDRs, _ = many(r, v, maxPrefixes, asPrefix) }},
	{name: "podCIDRs", read: func(r *reader, v value, c *Config) { c.PodCIDRs, _ = many(r, v, maxPrefixes, asPrefix) }},
	{name: "allowFrom", read: readAllowFrom},
	{name: "clientRateLimit", read: func(r *reader, v value, c *Config) { c.ClientRateLimit = r.number(v, 0, maxClientRate) }},
	{name: "nodeIP", read: readNodeIP},
	{name: "intercept", read: readIntercept},
	{name: "resolvConf", read: func(r *reader, v value, c *Config) { c.ResolvConf, _ = one(r, v, asResolvConf) }},
	{name: "cacheSize", read: func(r *reader, v value, c *Config) { c.CacheSize = r.number(v, 0, maxCacheSize) }},
	{name: "serveStale", read: func(r *reader, v value, c *Config) { c.ServeStale = r.number(v, 0, maxServeStale) }},
	{name: "prefetch", read: func(r *reader, v value, c *Config) { c.Prefetch = r.boolean(v) }},
	{name: "dnsForwardMax", read: func(r *reader, v value, c *Config) { c.DNSForwardMax = r.number(v, 1, maxDNSForwardMax) }},
	{name: "cookies", read: func(r *reader, v value, c *Config) { c.Cookies = r.boolean(v) }},
	{name: "useCapsForID", read: func(r *reader, v value, c *Config) { c.UseCapsForID = r.boolean(v) }},
	{name: "dnsOverTLS", read: func(r *reader, v value, c *Config) { c.DNSOverTLS, _ = one(r, v, asDNSOverTLS) }},
	{name: "dbus", read: func(r *reader, v value, c *Config) { c.DBus, _ = one(r, v, asDBus) }},
	{name: "metrics", keys: metricsKeys},
	{name: "logLevel", read: func(r *reader, v value, c *Config) { c.LogLevel, _ = one(r, v, asLevel) }},
}, resolverKeys...)

// readListen reads one string, or a list of strings that are combined.
func readListen(r *reader, v value, c *Config) {
	if v.node.Kind == yaml.SequenceNode && len(v.node.Content) == 0 {
		r.fault(v, asListen.expected+orList, "an empty list")
		return
	}
	var listen Listen
	for _, l := range oneOrMany(r, v, maxListen, asListen) {
		listen.Auto = listen.Auto || l.Auto
		listen.All = listen.All || l.All
		listen.Addrs = append(listen.Addrs, l.Addrs...)
	}
	c.Listen = listen
}

var routeKeys = []key[Route]{
	{name: "domain", read: func(r *reader, v value, route *Route) { route.Domain, _ = one(r, v, asDomain) }},
	{name: "servers", read: func(r *reader, v value, route *Route) {
		servers, ok := many(r, v, maxServers, asServer)
		if ok && len(servers) == 0 {
			r.fault(v, "at least one nameserver", "an empty list")
		}
		route.Servers = servers
	}},
}

func readRoutes(r *reader, v value, c *Config) {
	elements, ok := r.list(v, maxRoutes, "a list of routes, each with domain and servers")
	if !ok {
		return
	}
	inRoute := *r
	inRoute.sources = map[string]Source{} // a route is identified by its domain, not by its place
	routes := make([]Route, 0, len(elements))
	seen := map[dnsname.Name]bool{}
	for _, element := range elements {
		var route Route
		faults := r.faults.count
		readKeys(&inRoute, element, routeKeys, &route)
		switch {
		case r.faults.count > faults:
		case route.Domain.IsZero():
			r.fault(element, "a route with domain and servers", "one without domain")
		case route.Servers == nil:
			r.fault(element, "a route with domain and servers", "one without servers")
		case seen[route.Domain]:
			r.fault(element, "each domain once", Quote(route.Domain.Relative())+" a second time")
		}
		seen[route.Domain] = true
		routes = append(routes, route)
	}
	c.Routes = routes
}
