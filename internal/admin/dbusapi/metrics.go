package dbusapi

import (
	"math"
	"net/netip"
	"strconv"
	"time"
)

// Counters are what GetMetrics and GetServerMetrics are made of. They only grow, but for OpenTCP.
type Counters struct {
	Inserted   uint64 // responses that were remembered
	Evicted    uint64 // of these, those forgotten before their time
	Stale      uint64 // queries answered with what had expired
	Forwarded  uint64 // questions that were asked upstream
	Local      uint64 // queries answered from memory, the cluster's names and our own
	Unanswered uint64 // queries to which no server responded
	OpenTCP    uint64 // connections now
	Servers    []ServerCounters
}

// ServerCounters are one server's.
type ServerCounters struct {
	Addr                               netip.AddrPort
	Queries, Failed, NXDomain, Retries uint64
	RTT                                time.Duration // smoothed
}

// since is what was counted after zero. Counters that begin again (a cache that was replaced) count from there.
func (c Counters) since(zero Counters) Counters {
	after := func(now, then uint64) uint64 {
		if now < then {
			return now
		}
		return now - then
	}
	c.Inserted, c.Evicted = after(c.Inserted, zero.Inserted), after(c.Evicted, zero.Evicted)
	c.Forwarded, c.Local = after(c.Forwarded, zero.Forwarded), after(c.Local, zero.Local)
	c.Stale = after(c.Stale, zero.Stale)
	c.Unanswered = after(c.Unanswered, zero.Unanswered)
	before := map[netip.AddrPort]ServerCounters{}
	for _, server := range zero.Servers {
		before[server.Addr] = server
	}
	servers := make([]ServerCounters, 0, len(c.Servers))
	for _, now := range c.Servers {
		then := before[now.Addr]
		now.Queries, now.Failed = after(now.Queries, then.Queries), after(now.Failed, then.Failed)
		now.NXDomain, now.Retries = after(now.NXDomain, then.NXDomain), after(now.Retries, then.Retries)
		servers = append(servers, now)
	}
	c.Servers = servers
	return c
}

// metrics are dnsmasq 2.90's 26. What does not exist here is 0: DHCP, authoritative zones, DNSSEC validation.
func (c Counters) metrics() map[string]uint32 {
	metrics := map[string]uint32{
		"dns_cache_inserted":    clamp(c.Inserted),
		"dns_cache_live_freed":  clamp(c.Evicted),
		"dns_queries_forwarded": clamp(c.Forwarded),
		"dns_local_answered":    clamp(c.Local),
		"dns_stale_answered":    clamp(c.Stale),
		"dns_unanswered":        clamp(c.Unanswered),
		"tcp_connections":       clamp(c.OpenTCP),
	}
	for _, absent := range []string{
		"dns_auth_answered", "dnssec_max_crypto_use", "dnssec_max_sig_fail", "dnssec_max_work",
		"bootp", "pxe", "dhcp_ack", "dhcp_decline", "dhcp_discover", "dhcp_inform", "dhcp_nak", "dhcp_offer", "dhcp_release",
		"dhcp_request", "noanswer", "leases_allocated_4", "leases_pruned_4", "leases_allocated_6", "leases_pruned_6",
	} {
		metrics[absent] = 0
	}
	return metrics
}

// serverMetrics is a list of dictionaries, although dnsmasq's introspection says that it is one dictionary. The latency is in
// milliseconds.
func (c Counters) serverMetrics() []map[string]string {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	all := []map[string]string{}
	for _, server := range c.Servers {
		all = append(all, map[string]string{
			"address":        server.Addr.Addr().String(),
			"port":           number(uint64(server.Addr.Port())),
			"queries":        number(server.Queries),
			"failed_queries": number(server.Failed),
			"nxdomain":       number(server.NXDomain),
			"retries":        number(server.Retries),
			"latency":        number(uint64(server.RTT.Milliseconds())),
		})
	}
	return all
}

func clamp(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }
