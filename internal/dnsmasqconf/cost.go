package dnsmasqconf

import "fmt"

// fleeting is the max-cache-ttl, in seconds, below which a cache is of little use: a resolver
// queries A and AAAA, with each domain of its search list, and again after 5 s (resolv.conf(5)).
const fleeting = 5

// Costs returns warnings, one line each, about effective options whose cost an admin may not have
// intended.
func (c Config) Costs() []string {
	var costs []string
	if n := c.Number("max-cache-ttl"); n > 0 && n < fleeting {
		costs = append(costs, fmt.Sprintf("max-cache-ttl=%d (%s) makes node-dns query the upstreams for each name again after %d s; without it, the upstreams' TTLs apply",
			n, c.Sources["max-cache-ttl"], n))
	}
	if c.Has("no-negcache") {
		costs = append(costs, fmt.Sprintf("no-negcache (%s) makes node-dns query the upstreams every time for names that do not exist; without it, the TTLs of their SOA records apply",
			c.Sources["no-negcache"]))
	}
	return costs
}
