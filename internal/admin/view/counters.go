package view

import (
	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
)

// Counters returns our values of dnsmasq's counters.
func (v *View) Counters() dbusapi.Counters {
	stored, forwarded, served := v.resolver.Cache().Stats(), v.resolver.Forward().Stats(), v.server.Stats()
	c := dbusapi.Counters{
		Inserted: stored.Insertions, Evicted: stored.Evictions, Stale: stored.Stale,
		Forwarded: forwarded.Asked, Unanswered: forwarded.Unanswered,
		OpenTCP: uint64(max(served.TCPOpen, 0)),
		Local:   answeredHere(served, stored, forwarded),
	}
	seen := map[string]bool{}
	for _, route := range v.resolver.Forward().Status() {
		for _, server := range route.Servers {
			if address := server.Server.String(); !seen[address] {
				seen[address] = true
				c.Servers = append(c.Servers, dbusapi.ServerCounters{
					Addr: server.Server.Addr, Queries: server.Queries, Failed: server.Failures + server.Refusals,
					NXDomain: server.NXDomain, Retries: server.Retries, RTT: server.RTT,
				})
			}
		}
	}
	return c
}

// answeredHere returns how many queries were answered without an upstream server: the finished ones
// minus the forwarded questions. Not all of these belong to clients: prefetches do not, and
// questions of node-dns query come over no DNS socket. The result is therefore never lower than the
// number of answers from the cache.
func answeredHere(served dnsserver.Stats, stored cache.Stats, forwarded forward.Stats) uint64 {
	ended, asked := served.Answered+served.Failed, forwarded.Asked+forwarded.Joined
	asked -= min(asked, stored.Prefetched)
	return max(ended-min(ended, asked), stored.Hits+stored.Stale)
}
