package view

import (
	"fmt"
	"slices"
	"strconv"
	"time"

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
	for _, server := range serversOf(v.resolver.Forward().Status()) {
		c.Servers = append(c.Servers, dbusapi.ServerCounters{
			Addr: server.Server.Addr, Queries: server.Queries, Failed: server.Failures + server.Refusals,
			NXDomain: server.NXDomain, Retries: server.Retries, RTT: server.RTT,
		})
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

// Report logs the statistics after SIGUSR1.
func (v *View) Report() {
	for _, line := range reportLines(v.Counters(), max(v.policy().Settings.CacheSize, 0)) {
		v.Plain.Info(line)
	}
}

// reportLines returns dnsmasq 2.90's log lines for the statistics that exist here.
func reportLines(c dbusapi.Counters, cacheSize int) []string {
	lines := []string{
		fmt.Sprintf("cache size %d, %d/%d cache insertions re-used unexpired cache entries.", cacheSize, c.Evicted, c.Inserted),
		fmt.Sprintf("queries forwarded %d, queries answered locally %d", c.Forwarded, c.Local),
		fmt.Sprintf("queries answered from stale cache %d", c.Stale),
	}
	for _, s := range c.Servers {
		lines = append(lines, fmt.Sprintf("server %s#%d: queries sent %d, retried %d, failed %d, nxdomain replies %d, avg. latency %dms",
			s.Addr.Addr(), s.Addr.Port(), s.Queries, s.Retries, s.Failed, s.NXDomain, s.RTT.Round(time.Millisecond).Milliseconds()))
	}
	return lines
}

// Forget clears the cache and the response times of upstream nameservers after SIGUSR2, like
// systemd-resolved.
func (v *View) Forget() {
	v.FlushAll()
	v.resolver.Forward().ForgetTimes()
}

// BindNumbers returns the statistics that dnsmasq publishes under names of class CHAOS (dnsmasq(8),
// "cache statistics"), which monitoring tools query.
func (v *View) BindNumbers(name string) (texts []string, known bool) {
	c := v.Counters()
	var n uint64
	switch name {
	case "cachesize.bind.":
		n = uint64(max(v.policy().Settings.CacheSize, 0))
	case "insertions.bind.":
		n = c.Inserted
	case "evictions.bind.":
		n = c.Evicted
	case "misses.bind.":
		n = c.Forwarded
	case "hits.bind.":
		n = c.Local
	case "auth.bind.": // answers from zones for which dnsmasq is authoritative
	case "servers.bind.":
		texts = serverTexts(v.resolver.Forward().Status())
		return texts, len(texts) > 0
	default:
		return nil, false
	}
	return []string{strconv.FormatUint(n, 10)}, true
}

const (
	maxText  = 255 // bytes, RFC 1035 section 3.3
	maxTexts = 100
)

// serverTexts describes the servers like dnsmasq 2.90: address, queries and failures. dnsmasq never
// reports the domain. It precedes the address as in the server= option, so that a reader who splits
// at blanks still finds three words. The numbers are those of the server for all domains.
func serverTexts(routes []forward.RouteStatus) (texts []string) {
	for _, route := range routes {
		domain := ""
		switch {
		case route.Plain:
			domain = "//"
		case !route.Domain.IsRoot():
			domain = "/" + route.Domain.Relative() + "/"
		}
		for _, server := range route.Servers {
			addr := server.Server.Addr
			text := fmt.Sprintf("%s#%d %d %d", addr.Addr(), addr.Port(), server.Queries, server.Failures+server.Refusals)
			if len(domain)+len(text) <= maxText {
				text = domain + text
			}
			if !slices.Contains(texts, text) && len(texts) < maxTexts {
				texts = append(texts, text)
			}
		}
	}
	return texts
}
