package dbusapi

import (
	"context"
	"math"
	"net/netip"
	"strconv"
	"time"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// apiVersion is the version of dnsmasq with this interface.
const apiVersion = "2.90"

// dnsmasqMethods are all methods of dnsmasq 2.90. Surplus arguments are ignored, as in dnsmasq.
var dnsmasqMethods = map[string]method{
	"GetVersion": func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{apiVersion + "-node-dns-" + l.config.Version}, nil
	},
	"GetLoopServers": func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{append([]string{}, l.config.Loops()...)}, nil
	},
	"SetServers":               setter(parseServers),
	"SetServersEx":             setter(parseServersEx),
	"SetDomainServers":         setter(parseDomainServers),
	"SetFilterA":               option(func(o *dnsmasqconf.Options, on bool) { o.FilterA = on }),
	"SetFilterAAAA":            option(func(o *dnsmasqconf.Options, on bool) { o.FilterAAAA = on }),
	"SetFilterWin2KOption":     option(func(o *dnsmasqconf.Options, on bool) { o.FilterWin2K = on }),
	"SetBogusPrivOption":       option(func(o *dnsmasqconf.Options, on bool) { o.BogusPrivate = on }),
	"SetLocaliseQueriesOption": option(func(o *dnsmasqconf.Options, on bool) { o.Localise = on }),
	"GetMetrics": func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{l.config.Counters().since(l.zero).metrics()}, nil
	},
	"GetServerMetrics": func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{l.config.Counters().since(l.zero).serverMetrics()}, nil
	},
	"ClearMetrics": changing(func(l *link, _ context.Context, _ request) ([]any, error) {
		l.zero = l.config.Counters()
		return nil, nil
	}),
	"ClearCache": changing(func(l *link, _ context.Context, _ request) ([]any, error) {
		l.config.Log.Info("cleared cache", "entries", l.config.FlushCache())
		return nil, nil
	}),
	"AddDhcpLease":    noDHCP,
	"DeleteDhcpLease": noDHCP,
}

func noDHCP(*link, context.Context, request) ([]any, error) {
	return nil, fault{errorSupport, "node-dns does not serve DHCP and has no leases"}
}

// changing restricts a method to root and our own user.
func changing(m method) method {
	return func(l *link, ctx context.Context, r request) ([]any, error) {
		if err := l.caller(ctx, r.sender).mayCall(r.member); err != nil {
			return nil, err
		}
		return m(l, ctx, r)
	}
}

// setter returns a method that replaces all servers if every argument is valid, and otherwise
// changes nothing. dnsmasq, in contrast, applies the part of an invalid list that precedes the
// error.
func setter(parse func(body []any) ([]dnsmasqconf.Rule, error)) method {
	return changing(func(l *link, ctx context.Context, r request) ([]any, error) {
		rules, err := parse(r.body)
		if err != nil {
			return nil, err
		}
		next := l.config.State()
		next.Rules, next.RulesBy = rules, l.by(ctx, r)
		return nil, l.set(ctx, next)
	})
}

func option(change func(o *dnsmasqconf.Options, on bool)) method {
	return changing(func(l *link, ctx context.Context, r request) ([]any, error) {
		on, ok := argument[bool](r, 0)
		if !ok {
			return nil, refuse("Expected boolean argument")
		}
		next := l.config.State()
		change(&next.Options, on)
		next.OptionsBy = l.by(ctx, r)
		return nil, l.set(ctx, next)
	})
}

// by returns the caller of the request with the current time.
func (l *link) by(ctx context.Context, r request) Caller {
	caller := l.caller(ctx, r.sender)
	caller.Method, caller.At = r.member, time.Now().UTC().Truncate(time.Second)
	return caller
}

// set applies a state if it differs from the current one. OpenShift's SDN sends the same servers
// every 30 s.
func (l *link) set(ctx context.Context, next State) error {
	if next.Same(l.config.State()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, setTimeout)
	defer cancel()
	return l.config.Set(ctx, next)
}

// Counters are the source of GetMetrics and GetServerMetrics. All but OpenTCP only grow.
type Counters struct {
	Inserted   uint64 // responses stored in the cache
	Evicted    uint64 // responses removed before they expired
	Stale      uint64 // queries answered from expired entries
	Forwarded  uint64 // questions sent upstream
	Local      uint64 // queries answered from the cache, the cluster's names and our own names
	Unanswered uint64 // queries without a response from any server
	OpenTCP    uint64 // open connections
	Servers    []ServerCounters
}

// ServerCounters are the counters of one server.
type ServerCounters struct {
	Addr                               netip.AddrPort
	Queries, Failed, NXDomain, Retries uint64
	RTT                                time.Duration // smoothed
}

// since returns the difference from an earlier value. A counter that was reset, for example because
// the cache was replaced, counts from zero.
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

// metrics returns the 26 metrics of dnsmasq 2.90. Those without an equivalent are 0: DHCP,
// authoritative zones, DNSSEC validation.
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

// serverMetrics returns a list of dictionaries, although dnsmasq's introspection declares a single
// dictionary. The latency is in milliseconds.
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
