package nodeconfig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Claims returns what the files configure about upstreams, except the cluster's servers (see
// Place). recursive are the nameservers of dnsRecursiveResolvConf.
func (c Config) Claims(recursive []nameserver.Server) []nameserver.Claim {
	var claims []nameserver.Claim
	for _, route := range c.Routes {
		claims = append(claims, nameserver.Claim{
			Source: nameserver.NodeDNS, Detail: c.Where("routes"), Domain: route.Domain, Servers: route.Servers,
		})
	}
	if len(c.Upstreams) > 0 {
		claims = append(claims, nameserver.Claim{
			Source: nameserver.NodeDNS, Detail: c.Where("upstreams"), Domain: dnsname.Root(), Servers: c.Upstreams,
		})
	}
	if servers := slices.Concat(c.DNSNameservers, recursive); len(servers) > 0 {
		claims = append(claims, nameserver.Claim{
			Source: nameserver.NodeConfig, Detail: c.Where("dnsNameservers", "dnsRecursiveResolvConf"), Domain: dnsname.Root(), Servers: servers,
			// They were meant for OpenShift's own nameserver, whose upstream was this node. If none
			// of them is usable, the captured ones apply.
			GivesWay: true,
		})
	}
	return claims
}

// HasCluster reports whether the files refer to a cluster: the cluster's own file exists, even if
// unreadable, or node-dns.yaml sets its domain, its nameservers or a kubeconfig.
func (c Config) HasCluster() bool {
	_, hasDomain := c.Sources["clusterDomain"]
	return c.Facts == nil || c.Facts.File != "" || hasDomain || len(c.ClusterDNS) > 0 || c.Resolver.Kubeconfig != ""
}

// Where returns the places of those keys that are set: "dnsDomain
// /etc/origin/node/node-config.yaml:5". It returns "default" if none is.
func (c Config) Where(keys ...string) string { return where(c.Sources, keys) }

// WhereCluster is Where for the cluster's file. It ignores keys of the same names in node-dns.yaml.
func (c Config) WhereCluster(keys ...string) string { return where(c.ClusterSources, keys) }

func where(sources map[string]Source, keys []string) string {
	var places []string
	for _, key := range keys {
		if source, ok := sources[key]; ok {
			places = append(places, fmt.Sprintf("%s %s:%d", key, source.File, source.Line))
		}
	}
	if len(places) == 0 {
		return "default"
	}
	return strings.Join(places, ", ")
}
