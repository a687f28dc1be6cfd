package view

import (
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/sys/stats"
)

// trafficRows are the metrics of queries and responses.
var trafficRows = []row{
	counter("dns_requests_total", "Queries, except dropped ones; family 1 is IPv4, 2 is IPv6.",
		[]string{"proto", "family", "type"}, func(s *Sample, put puts) {
			for _, t := range s.Traffic {
				for i, name := range dnsserver.TypeNames {
					put.value(float64(t.Types[i]), string(t.Proto), family(t), name)
				}
			}
		}).with(block),
	counter("dns_do_requests_total", "Queries with the DO bit (DNSSEC).", nil, number(func(s *Sample) (n uint64) {
		for _, t := range s.Traffic {
			n += t.DO
		}
		return n
	})).with(block),
	counter("dns_responses_total", "Responses by response code.", []string{"rcode", "plugin"}, func(s *Sample, put puts) {
		for i, name := range dnsserver.RcodeNames {
			n := uint64(0)
			for _, t := range s.Traffic {
				n += t.Rcodes[i]
			}
			put.value(float64(n), name, "")
		}
	}).with(block),
	spread("dns_request_duration_seconds", "Time from a query to its response.", nil, func(s *Sample, put puts) {
		var all stats.Durations
		for _, t := range s.Traffic {
			all.Merge(&t.Durations)
		}
		put.hist(&all)
	}).with(block),
	spread("dns_request_size_bytes", "Query sizes.", []string{"proto"},
		sizes(func(t *dnsserver.Traffic) *stats.Sizes { return &t.Queries })).with(block),
	spread("dns_response_size_bytes", "Response sizes.", []string{"proto"},
		sizes(func(t *dnsserver.Traffic) *stats.Sizes { return &t.Responses })).with(block),
}

// sizes reads a row of sizes by transport.
func sizes(of func(*dnsserver.Traffic) *stats.Sizes) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		for _, proto := range []dnsserver.Proto{dnsserver.UDP, dnsserver.TCP} {
			var all stats.Sizes
			for i := range s.Traffic {
				if t := &s.Traffic[i]; t.Proto == proto {
					all.Merge(of(t))
				}
			}
			put.hist(&all, string(proto))
		}
	}
}

// family returns CoreDNS's label value for the address family.
func family(t dnsserver.Traffic) string {
	if t.IPv6 {
		return "2"
	}
	return "1"
}

// serverRows are the metrics of the server and its limits.
var serverRows = []row{
	counter("dns_dropped_total", "Messages without a response: too short, not a query, or from port 0.", nil, number(func(s *Sample) uint64 { return s.Server.Dropped })),
	counter("dns_truncated_total", "Responses with TC, because the client accepts no larger ones.", nil, number(func(s *Sample) uint64 { return s.Server.Truncated })),
	counter("dns_write_errors_total", "Responses that could not be sent.", nil, number(func(s *Sample) uint64 { return s.Server.WriteErrors })),
	gauge("dns_in_flight", "Queries being answered now.", nil, number(func(s *Sample) int64 { return s.Server.InFlight })),
	gauge("dns_tcp_connections", "Open TCP connections of clients.", nil, number(func(s *Sample) int64 { return s.Server.TCPOpen })),
	counter("limited_total", "Queries or connections rejected by a limit: see node-dns status.",
		[]string{"limit"}, counts(func(s *Sample) map[string]uint64 {
			l := s.Status.Queries.Limits
			return map[string]uint64{
				"allow_from":   l.Strangers,
				"client_rate":  l.Hasty,
				"client_share": l.Crowding,
				"client_cost":  l.Costly,
				"in_flight":    l.Full,
				"forward_max":  l.Upstream,
				"refusals":     l.Silenced,
				"tcp":          l.TCPRefused,
				"tcp_idle":     l.TCPIdle,
				"files":        l.NoDescriptors,
			}
		})),
	gauge("client_troubles", "Slow (100 ms or more) or failed answers of about the last ten minutes, for the ten clients with the most. Sampled above 100 a second.",
		[]string{"client", "pod", "what"}, func(s *Sample, put puts) {
			for _, c := range s.Troubled {
				put.value(c.Slow, c.Client, c.Pod, "slow")
				put.value(c.Failed, c.Client, c.Pod, "failed")
			}
		}),
	counter("panics_total", "Panics. Each failed one query or task.", nil, number(func(s *Sample) uint64 { return s.Status.Queries.Panics })),
	spread("health_request_duration_seconds", "Duration of the watchdog's check of all listeners.", nil, func(s *Sample, put puts) {
		put.hist(&s.Health.Durations)
	}),
	counter("health_request_failures_total", "Watchdog checks that found a hung listener.", nil, number(func(s *Sample) uint64 { return s.Health.Failures })),
}

// cacheRows are the metrics of the cache. CoreDNS has one cache for each server block.
var cacheRows = []row{
	gauge("cache_entries", "Cached responses: success, or denial (NXDOMAIN, NODATA).",
		[]string{"type"}, kinds(func(c cache.Stats) (all, denials int) { return c.Entries, c.Denials })).with(blockCache),
	gauge("cache_size", "Maximum number of cached responses.", nil, number(func(s *Sample) int { return s.Cache.Size })),
	gauge("cache_bytes", "Memory of the cached responses.", nil, number(func(s *Sample) int { return s.Cache.Bytes })),
	counter("cache_hits_total", "Cache hits.",
		[]string{"type"}, kinds(func(c cache.Stats) (all, denials uint64) { return c.Hits, c.DenialHits })).with(blockCache),
	counter("cache_misses_total", "Cache misses.", nil,
		number(func(s *Sample) uint64 { return s.Cache.Misses })).with(blockCache),
	counter("cache_requests_total", "Cache lookups.", nil,
		number(func(s *Sample) uint64 { return s.Cache.Hits + s.Cache.Misses + s.Cache.Stale })).with(blockCache),
	counter("cache_evictions_total", "Cached responses removed early for lack of space.",
		[]string{"type"}, kinds(func(c cache.Stats) (all, denials uint64) { return c.Evictions, c.DenialEvictions })).with(blockCache),
	counter("cache_served_stale_total", "Expired answers, given because no nameserver answered (RFC 8767).", nil,
		number(func(s *Sample) uint64 { return s.Cache.Stale })).with(blockCache),
	counter("cache_prefetch_total", "Cached responses refreshed before they expired.", nil,
		number(func(s *Sample) uint64 { return s.Cache.Prefetched })).with(blockCache),
	counter("cache_insertions_total", "Responses added to the cache.", nil, number(func(s *Sample) uint64 { return s.Cache.Insertions })),
}

// kinds reads a row of successful answers and denials.
func kinds[N int | uint64](of func(cache.Stats) (all, denials N)) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		all, denials := of(s.Cache)
		put.value(float64(all-denials), "success")
		put.value(float64(denials), "denial")
	}
}

// maxInfos limits the exported pairs of a domain and a nameserver, because there may be thousands
// of routes.
const maxInfos = 500

// upstreamRows are the metrics of queries to other nameservers.
var upstreamRows = []row{
	spread("proxy_request_duration_seconds", "Response time of a nameserver.",
		[]string{"to", "rcode"}, durations).with(proxy),
	counter("proxy_healthcheck_failures_total", "Attempts without a response. They determine whether a nameserver is up.",
		[]string{"to"}, each(failuresOf)).with(proxy),
	counter("forward_healthcheck_broken_total", "Queries to which no nameserver responded.", nil, number(func(s *Sample) uint64 { return s.Forward.Unanswered })),
	counter("forward_max_concurrent_rejects_total", "Queries that failed because of dnsForwardMax, or without a free socket.", nil, number(func(s *Sample) uint64 { return s.Forward.Shed })),
	gauge("forward_in_flight", "Queries that wait for nameservers now.", nil, number(func(s *Sample) int { return s.Forward.InFlight })),
	counter("forward_joined_total", "Queries that shared the response to an identical one in flight.", nil, number(func(s *Sample) uint64 { return s.Forward.Joined })),
	counter("forward_comebacks_total", "Queries that a nameserver sent back: a loop.", nil, number(func(s *Sample) uint64 { return s.Forward.Looped })),
	counter("forward_moved_total", "Queries repeated over TCP after three invalid responses over UDP: possibly spoofing.", nil, number(func(s *Sample) uint64 { return s.Forward.Moved })),
	counter("forward_ignored_total", "Messages that answer no query: forged, foreign or malformed.", nil, number(func(s *Sample) uint64 { return s.Forward.Ignored })),

	gauge("upstream_up", "Whether a nameserver responds; 0 if it is down or has only failed. Not shown before its first query.",
		[]string{"to", "source"}, func(s *Sample, put puts) {
			type pair struct{ to, source string }
			seen := map[pair]bool{}
			for _, route := range s.Status.Routes {
				for _, u := range route.Servers {
					p := pair{u.Address, route.Rank}
					if seen[p] || u.State == string(exchange.Unknown) && u.Failures == 0 {
						continue
					}
					seen[p] = true
					put.value(one(u.State == string(exchange.Up)), p.to, p.source)
				}
			}
		}),
	gauge("upstream_tls", "Whether dnsOverTLS: opportunistic uses TLS with a nameserver now.",
		[]string{"to"}, each(func(u forward.ServerStatus) (float64, bool) {
			return one(u.Transport == forward.Opportunistic), u.Transport != ""
		})),
	gauge("upstream_udp_limited", "Whether node-dns requests only small UDP responses of a nameserver, because large ones were lost.",
		[]string{"to"}, each(func(u forward.ServerStatus) (float64, bool) { return one(u.UDPSize > 0), true })),
	gauge("upstream_info", "A nameserver of a domain, its source, and its interface, if set.",
		[]string{"to", "domain", "source", "interface"}, infos),
	counter("upstream_requests_total", "Queries sent to a nameserver.", []string{"to"}, each(queries)),
	counter("upstream_retries_total", "Queries repeated for lack of a response.", []string{"to"},
		each(func(u forward.ServerStatus) (float64, bool) { return float64(u.Retries), true })),
	gauge("upstream_rtt_seconds", "Smoothed response time of a nameserver.", []string{"to"}, each(func(u forward.ServerStatus) (float64, bool) { return u.RTT.Seconds(), u.RTT > 0 })),
}

// each returns the reader of a row with one value per nameserver that has one.
func each(of func(forward.ServerStatus) (v float64, ok bool)) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		for _, u := range serversOf(s.Routes) {
			if v, ok := of(u); ok {
				put.value(v, u.Server.String())
			}
		}
	}
}

func queries(u forward.ServerStatus) (float64, bool)    { return float64(u.Queries), true }
func failuresOf(u forward.ServerStatus) (float64, bool) { return float64(u.Failures), true }

// durations reads the response times by nameserver and response code.
func durations(s *Sample, put puts) {
	for _, u := range serversOf(s.Routes) {
		for i, rcode := range exchange.RcodeNames {
			put.hist(&u.Durations[i], u.Server.String(), rcode)
		}
	}
}

func infos(s *Sample, put puts) {
	type info struct{ to, domain, source, iface string }
	ranks := map[string]string{}
	for _, route := range s.Status.Routes {
		ranks[route.Domain] = route.Rank
	}
	seen := map[info]bool{}
	for _, route := range s.Routes {
		domain := routeWord(route.Domain, route.Plain)
		for _, u := range route.Servers {
			i := info{u.Server.String(), domain, ranks[domain], u.Server.Interface}
			if seen[i] || len(seen) == maxInfos {
				continue
			}
			seen[i] = true
			put.value(1, i.to, i.domain, i.source, i.iface)
		}
	}
}

var hostRows = []row{
	gauge("build_info", "Always 1. The labels describe the program.", []string{"version", "revision", "goversion"}, func(s *Sample, put puts) {
		put.value(1, s.Status.Version, s.Revision, runtime.Version())
	}),
	gauge("ready", "Whether every address is bound, an upstream is known and end-to-end questions are answered, or another node-dns serves the node.", nil, truth(func(s *Sample) bool { return s.Status.Ready })),
	gauge("problems", "Problems that node-dns status shows.", nil, number(func(s *Sample) int { return len(s.Status.Problems) })),
	gauge("memory_limit_bytes", "Memory limit of the control group; 0: none.", nil, number(func(s *Sample) int64 { return s.Status.Process.MemoryLimit })),

	gauge("resolvconf_ours", "Whether node-dns points /etc/resolv.conf or systemd-resolved at this node.", nil,
		truth(func(s *Sample) bool { return s.Status.ResolvConf.Ours || s.Status.ResolvConf.DropIn != "" })),
	gauge("resolvconf_wanted", "Whether resolvconf_ours should be 1; 0 if node-dns.yaml or another program prevents it.", nil,
		truth(func(s *Sample) bool { return s.Status.ResolvConf.Hold == "" || s.Status.ResolvConf.Ours })),
	counter("resolvconf_rewrites_total", "Requests to rewrite the host's files, by trigger; hook: written without a request.", []string{"reason"}, counts(func(s *Sample) map[string]uint64 { return s.Requests })),
	counter("nm_events_total", "NetworkManager changes on D-Bus that may affect DNS, except events that run the hook.", []string{"action"}, counts(func(s *Sample) map[string]uint64 { return s.Events })),

	gauge("intercepted", "Whether queries for an address of the key intercept come to this node; 0 while NodeLocal DNSCache answers.", []string{"address"}, func(s *Sample, put puts) {
		if i := s.Status.Interception; i != nil {
			for _, addr := range i.Wanted {
				put.value(one(slices.ContainsFunc(i.Addresses, func(a control.Intercepted) bool { return a.Address == addr && a.On && !a.IsStandby() })), addr)
			}
		}
	}),

	gauge("config_last_reload_success_timestamp_seconds", "Time of the last successful load of the configuration files.", nil, number(func(s *Sample) float64 { return float64(s.Config.Taken.UnixMilli()) / 1000 })),
	gauge("config_last_reload_successful", "Whether the current configuration files are in use; 0 if they have an error.", nil, truth(func(s *Sample) bool { return s.Config.Fault == "" })),
	counter("reload_failed_total", "Failed loads of the configuration files.", nil, number(func(s *Sample) uint64 { return s.Config.Failed })),

	counter("search_nxdomain_total", "Queries for nonexistent names in the cluster's domain, mostly from search lists.", nil, number(func(s *Sample) uint64 { return s.SearchNXDomain })),
}

func counts(of func(*Sample) map[string]uint64) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		for key, n := range of(s) {
			put.value(float64(n), key)
		}
	}
}

// clusterRows are the metrics of the cluster data and its latency. They exist only if the
// Kubernetes API is watched.
var clusterRows = []row{
	gauge("cluster_synced", "Whether cluster names are answered from the current state of the Kubernetes API. Not shown without a watch.", nil,
		watched(func(r *control.Resolver) float64 { return one(r.FromDisk.IsZero() && r.Services+r.Namespaces > 0) })),
	gauge("cluster_objects", "Known objects of the cluster.", []string{"kind"}, ofResolver(func(r *control.Resolver, _ *Sample, put puts) {
		put.value(float64(r.Services), "service")
		put.value(float64(r.Endpoints), "endpoint")
		put.value(float64(r.Namespaces), "namespace")
		put.value(float64(r.Pods), "pod")
		if r.Imports > 0 {
			put.value(float64(r.Imports), "import")
		}
	})),
	counter("cluster_events_total", "Changes from the Kubernetes API.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Events) })),
	counter("cluster_lists_total", "Completed lists of the Kubernetes API. After an outage, watches resume without one.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Lists) })),
	counter("cluster_lost_total", "Changes that a watch missed, found by comparison with a list.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Lost) })),
	counter("cluster_limited_total", "Changes dropped because of too many objects.",
		[]string{"limit"}, ofResolver(func(r *control.Resolver, _ *Sample, put puts) { put.value(float64(r.Dropped), "objects") })),
	spread("kubernetes_dns_programming_duration_seconds", "Time from a change of a Service or its Pods until names were answered with it.",
		[]string{"service_kind"}, ofResolver(func(_ *control.Resolver, s *Sample, put puts) {
			put.hist(&s.Programming.Headless, "headless_with_selector")
			if count, _, _ := s.Programming.ClusterIP.Buckets(); count > 0 {
				put.hist(&s.Programming.ClusterIP, "cluster_ip")
			}
		})),
	counter("kubernetes_dns_programming_untimed_total", "Changes without a time: in the future, in the past (over an hour ago, or before the daemon watched), or too many at once.",
		[]string{"reason"}, ofResolver(func(_ *control.Resolver, s *Sample, put puts) {
			put.value(float64(s.Programming.Future), "future")
			put.value(float64(s.Programming.Past), "past")
			put.value(float64(s.Programming.Many), "many")
		})),
	counter("kubernetes_rest_client_requests_total", "Requests to the Kubernetes API. A watch is one, and lasts minutes.",
		[]string{"code", "method", "host"}, ofResolver(func(_ *control.Resolver, s *Sample, put puts) {
			for request, n := range s.APIRequests {
				put.value(float64(n), request.Code, request.Method, request.Host)
			}
		})),
	counter("autopath_answered_total", "Queries answered with a later name of the pod's search list.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Autopath.Answered) })),
	counter("autopath_saved_total", "Queries that pods did not send, thanks to autopath.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Autopath.Saved) })),
}

// ofResolver reads a row that exists only if the Kubernetes API is watched.
func ofResolver(read func(r *control.Resolver, s *Sample, put puts)) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		if r := s.Status.Cluster.Resolver; r != nil {
			read(r, s, put)
		}
	}
}

// watched reads a row with one value that exists only if the Kubernetes API is watched.
func watched(of func(*control.Resolver) float64) func(*Sample, puts) {
	return ofResolver(func(r *control.Resolver, _ *Sample, put puts) { put.value(of(r)) })
}

// coreDNSRows are metrics that CoreDNS no longer has, or has in its plugins, but that its
// dashboards use: dotdc's k8s-system-coredns (15762 at Grafana) and povilasv's coredns-mixin.
var coreDNSRows = []row{
	counter("forward_requests_total", "Same as upstream_requests_total.", []string{"to"}, each(queries)),
	counter("forward_responses_total", "Responses of a nameserver.", []string{"to", "rcode"}, func(s *Sample, put puts) {
		for _, u := range serversOf(s.Routes) {
			for i, rcode := range exchange.RcodeNames {
				count, _, _ := u.Durations[i].Buckets()
				put.value(float64(count), u.Server.String(), rcode)
			}
		}
	}),
	spread("forward_request_duration_seconds", "Same as proxy_request_duration_seconds.", []string{"to", "rcode"}, durations),
	counter("forward_healthcheck_failures_total", "Same as proxy_healthcheck_failures_total.", []string{"to"}, each(failuresOf)),
	counter("autopath_success_total", "Same as autopath_answered_total.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Autopath.Answered) })).with(prometheus.Labels{"server": block["server"]}),
	gauge("plugin_enabled", "CoreDNS plugins with an active counterpart.", []string{"name"}, func(s *Sample, put puts) {
		put.value(1, "forward")
		if s.Cache.Size > 0 {
			put.value(1, "cache")
		}
		if r := s.Status.Cluster.Resolver; r != nil {
			put.value(1, "kubernetes")
			if r.Autopath.On {
				put.value(1, "autopath")
			}
		}
	}).with(block),
}
