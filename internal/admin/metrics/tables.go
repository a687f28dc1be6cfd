package metrics

import (
	"maps"
	"runtime"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/health"
	"github.com/node-dns/node-dns/internal/sys/percpu"
)

// trafficRows are the metrics of queries and responses.
var trafficRows = []row{
	counter("dns_requests_total", "Queries that were answered, or left without an answer on purpose, by transport, address family (1: IPv4, 2: IPv6) and type.",
		and(whole, "proto", "family", "type"), func(s *Sample, put puts) {
			for _, t := range s.Traffic {
				for i, name := range dnsserver.TypeNames {
					put.value(float64(t.Types[i]), server, zone, view, string(t.Proto), family(t), name)
				}
			}
		}),
	counter("dns_do_requests_total", "Queries with the DO bit, which wants DNSSEC's records.", whole, func(s *Sample, put puts) {
		n := uint64(0)
		for _, t := range s.Traffic {
			n += t.DO
		}
		put.value(float64(n), server, zone, view)
	}),
	counter("dns_responses_total", "Responses by response code.", and(whole, "rcode", "plugin"), func(s *Sample, put puts) {
		for i, name := range dnsserver.RcodeNames {
			n := uint64(0)
			for _, t := range s.Traffic {
				n += t.Rcodes[i]
			}
			put.value(float64(n), server, zone, view, name, "")
		}
	}),
	spread("dns_request_duration_seconds", "Time from when a query was received until its response was sent.", whole, func(s *Sample, put puts) {
		var all percpu.Durations
		for _, t := range s.Traffic {
			all.Merge(&t.Durations)
		}
		put.hist(&all, server, zone, view)
	}),
	spread("dns_request_size_bytes", "Size of the queries.", and(whole, "proto"), func(s *Sample, put puts) {
		sizes(s, put, func(t *dnsserver.Traffic) *percpu.Sizes { return &t.Queries })
	}),
	spread("dns_response_size_bytes", "Size of the responses.", and(whole, "proto"), func(s *Sample, put puts) {
		sizes(s, put, func(t *dnsserver.Traffic) *percpu.Sizes { return &t.Responses })
	}),
}

// sizes puts the sizes by transport.
func sizes(s *Sample, put puts, of func(*dnsserver.Traffic) *percpu.Sizes) {
	for _, proto := range []dnsserver.Proto{dnsserver.UDP, dnsserver.TCP} {
		var all percpu.Sizes
		for i := range s.Traffic {
			if t := &s.Traffic[i]; t.Proto == proto {
				all.Merge(of(t))
			}
		}
		put.hist(&all, server, zone, view, string(proto))
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
	counter("dns_dropped_total", "Messages without a response: too short, responses themselves, or from port 0.", nil, number(func(s *Sample) uint64 { return s.Server.Dropped })),
	counter("dns_truncated_total", "Responses sent with TC, as they were larger than their client takes.", nil, number(func(s *Sample) uint64 { return s.Server.Truncated })),
	counter("dns_write_errors_total", "Responses that could not be sent.", nil, number(func(s *Sample) uint64 { return s.Server.WriteErrors })),
	gauge("dns_in_flight", "Queries that are being answered now.", nil, number(func(s *Sample) int64 { return s.Server.InFlight })),
	gauge("dns_tcp_connections", "Connections of clients that are open now.", nil, number(func(s *Sample) int64 { return s.Server.TCPOpen })),
	counter("limited_total", "Queries or connections that were not served for a bound, by the bound; node-dns status names them in words.",
		[]string{"limit"}, func(s *Sample, put puts) {
			l := s.Status.Queries.Limits
			for _, limit := range []struct {
				name  string
				count uint64
			}{
				{"allow_from", l.Strangers},
				{"client_rate", l.Hasty},
				{"client_share", l.Crowding},
				{"client_cost", l.Costly},
				{"in_flight", l.Full},
				{"forward_max", l.Upstream},
				{"refusals", l.Silenced},
				{"tcp", l.TCPRefused},
				{"tcp_idle", l.TCPIdle},
				{"files", l.NoDescriptors},
			} {
				put.value(float64(limit.count), limit.name)
			}
		}),
	gauge("client_troubles", "Answers of the last ten minutes or so that were slow (100 ms and more) or failed, of the ten clients that have had most; pod is NAMESPACE/NAME where it is known. Of more than 100 a second a sample.",
		[]string{"client", "pod", "what"}, func(s *Sample, put puts) {
			for _, c := range s.Troubled {
				put.value(c.Slow, c.Client, c.Pod, "slow")
				put.value(c.Failed, c.Client, c.Pod, "failed")
			}
		}),
	counter("panics_total", "Faults of the program, each of which failed one query or one task.", nil, number(func(s *Sample) uint64 { return s.Status.Queries.Panics })),
	spread("health_request_duration_seconds", "Time that the watchdog's round over the daemon's own listeners took.", nil, func(s *Sample, put puts) {
		put.hist(&s.Health.Durations)
	}),
	counter("health_request_failures_total", "Rounds of the watchdog in which a listener did not answer.", nil, number(func(s *Sample) uint64 { return s.Health.Failures })),
}

// cached are the labels of cache metrics. CoreDNS has one cache for each server block.
var cached = []string{"server", "zones", "view"}

var cacheRows = []row{
	gauge("cache_entries", "Responses that are remembered, by whether they have an answer (success) or not (denial).",
		[]string{"server", "type", "zones", "view"}, func(s *Sample, put puts) {
			put.value(float64(s.Cache.Entries-s.Cache.Denials), server, "success", zone, view)
			put.value(float64(s.Cache.Denials), server, "denial", zone, view)
		}),
	gauge("cache_size", "How many responses are remembered at most.", nil, number(func(s *Sample) int { return s.Cache.Size })),
	gauge("cache_bytes", "Memory that the remembered responses take.", nil, number(func(s *Sample) int { return s.Cache.Bytes })),
	counter("cache_hits_total", "Queries that were answered from memory, by whether there was an answer (success) or none (denial).",
		[]string{"server", "type", "zones", "view"}, func(s *Sample, put puts) {
			put.value(float64(s.Cache.Hits-s.Cache.DenialHits), server, "success", zone, view)
			put.value(float64(s.Cache.DenialHits), server, "denial", zone, view)
		}),
	counter("cache_misses_total", "Queries that were not, and that the upstream nameservers were asked for.", cached,
		number(func(s *Sample) uint64 { return s.Cache.Misses }, server, zone, view)),
	counter("cache_requests_total", "Queries that memory was asked for.", cached,
		number(func(s *Sample) uint64 { return s.Cache.Hits + s.Cache.Misses + s.Cache.Stale }, server, zone, view)),
	counter("cache_evictions_total", "Responses that were forgotten before their time for lack of room, by whether they had an answer.",
		[]string{"server", "type", "zones", "view"}, func(s *Sample, put puts) {
			put.value(float64(s.Cache.Evictions-s.Cache.DenialEvictions), server, "success", zone, view)
			put.value(float64(s.Cache.DenialEvictions), server, "denial", zone, view)
		}),
	counter("cache_served_stale_total", "Queries that were answered with what had expired, as no upstream nameserver answered (RFC 8767).", cached,
		number(func(s *Sample) uint64 { return s.Cache.Stale }, server, zone, view)),
	counter("cache_prefetch_total", "Responses that were asked for anew before they expired.", cached,
		number(func(s *Sample) uint64 { return s.Cache.Prefetched }, server, zone, view)),
	counter("cache_insertions_total", "Responses that were remembered.", nil, number(func(s *Sample) uint64 { return s.Cache.Insertions })),
}

// maxInfos limits the exported pairs of a domain and a nameserver, because there may be thousands
// of routes.
const maxInfos = 500

// proxy is CoreDNS's proxy_name for plugin forward.
const proxy = "forward"

// upstreamRows are the metrics of queries to other nameservers.
var upstreamRows = []row{
	spread("proxy_request_duration_seconds", "Time that a nameserver took to respond, by what it said: NOERROR, NXDOMAIN, SERVFAIL, REFUSED or other.",
		[]string{"proxy_name", "to", "rcode"}, func(s *Sample, put puts) {
			for _, u := range servers(s) {
				for i, rcode := range health.RcodeNames {
					put.hist(&u.Durations[i], proxy, u.Server.String(), rcode)
				}
			}
		}),
	counter("proxy_healthcheck_failures_total", "Tries that a nameserver did not respond to, which its health is judged by.",
		[]string{"proxy_name", "to"}, each(failures, proxy)),
	counter("forward_healthcheck_broken_total", "Queries that failed as no nameserver responded.", nil, number(func(s *Sample) uint64 { return s.Forward.Unanswered })),
	counter("forward_max_concurrent_rejects_total", "Queries that failed as dnsForwardMax waited for nameservers, or this host had no socket.", nil, number(func(s *Sample) uint64 { return s.Forward.Shed })),
	gauge("forward_in_flight", "Questions that nameservers are asked now.", nil, number(func(s *Sample) int { return s.Forward.InFlight })),
	counter("forward_joined_total", "Queries that shared the response to an equal one under way.", nil, number(func(s *Sample) uint64 { return s.Forward.Joined })),
	counter("forward_comebacks_total", "Questions that a nameserver asked us while we asked it: a loop.", nil, number(func(s *Sample) uint64 { return s.Forward.Comebacks })),
	counter("forward_moved_total", "Questions asked over TCP, as three messages came over UDP that were no response: somebody may be guessing.", nil, number(func(s *Sample) uint64 { return s.Forward.Moved })),
	counter("forward_ignored_total", "Messages that were no response to a query of ours: forged, foreign or malformed.", nil, number(func(s *Sample) uint64 { return s.Forward.Ignored })),

	gauge("upstream_up", "Whether a nameserver responds: 1, or 0 when it is down or has failed only. One that was not asked yet is not shown.",
		[]string{"to", "source"}, func(s *Sample, put puts) {
			type pair struct{ to, source string }
			seen := map[pair]bool{}
			for _, route := range s.Status.Routes {
				for _, u := range route.Servers {
					p := pair{u.Address, route.Rank}
					if seen[p] || u.State == string(health.Unknown) && u.Failures == 0 {
						continue
					}
					seen[p] = true
					put.value(one(u.State == string(health.Up)), p.to, p.source)
				}
			}
		}),
	gauge("upstream_tls", "Whether a nameserver that was given as a plain one is asked over TLS now: 1, or 0 when it is asked in the clear. Shown where dnsOverTLS is opportunistic.",
		[]string{"to"}, each(func(u forward.ServerStatus) (float64, bool) {
			return one(u.Transport == forward.Opportunistic), u.Transport != ""
		})),
	gauge("upstream_udp_limited", "Whether a nameserver is asked for small responses over UDP, because large ones were lost: 1 or 0. Large ones come over TCP.",
		[]string{"to"}, each(func(u forward.ServerStatus) (float64, bool) { return one(u.UDPSize > 0), true })),
	gauge("upstream_info", "Which nameserver is asked for which domain, who named it, and the interface that it is asked over where that is said.",
		[]string{"to", "domain", "source", "interface"}, infos),
	counter("upstream_requests_total", "Queries sent to a nameserver.", []string{"to"}, each(queries)),
	counter("upstream_retries_total", "Questions that were sent to a nameserver again, as it was silent to them.", []string{"to"},
		each(func(u forward.ServerStatus) (float64, bool) { return float64(u.Retries), true })),
	gauge("upstream_rtt_seconds", "How long a nameserver takes to respond, smoothed.", []string{"to"}, each(func(u forward.ServerStatus) (float64, bool) { return u.RTT.Seconds(), u.RTT > 0 })),
}

// each reads a row with one value per nameserver that has it. before holds the values of the labels
// before "to".
func each(of func(forward.ServerStatus) (v float64, ok bool), before ...string) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		for _, u := range servers(s) {
			if v, ok := of(u); ok {
				put.value(v, and(before, u.Server.String())...)
			}
		}
	}
}

func queries(u forward.ServerStatus) (float64, bool)  { return float64(u.Queries), true }
func failures(u forward.ServerStatus) (float64, bool) { return float64(u.Failures), true }

// servers returns the nameservers of all routes without duplicates.
func servers(s *Sample) []forward.ServerStatus {
	var all []forward.ServerStatus
	seen := map[string]bool{}
	for _, route := range s.Routes {
		for _, u := range route.Servers {
			if name := u.Server.String(); !seen[name] {
				seen[name] = true
				all = append(all, u)
			}
		}
	}
	return all
}

func infos(s *Sample, put puts) {
	type info struct{ to, domain, source, iface string }
	ranks := map[string]string{}
	for _, route := range s.Status.Routes {
		ranks[route.Domain] = route.Rank
	}
	seen := map[info]bool{}
	for _, route := range s.Routes {
		domain := route.Domain.String()
		if route.Plain {
			domain = "//"
		}
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
	gauge("build_info", "Always 1: what is running.", []string{"version", "revision", "goversion"}, func(s *Sample, put puts) {
		put.value(1, s.Status.Version, s.Revision, runtime.Version())
	}),
	gauge("ready", "Whether every address is bound and there is somebody to ask: 1 or 0, as /ready and node-dns status.", nil, truth(func(s *Sample) bool { return s.Status.Ready })),
	gauge("problems", "How many problems node-dns status names.", nil, number(func(s *Sample) int { return len(s.Status.Problems) })),
	gauge("memory_limit_bytes", "Memory that the process keeps below, by its control group; 0: no limit.", nil, number(func(s *Sample) int64 { return s.Status.Process.MemoryLimit })),

	gauge("resolvconf_ours", "Whether /etc/resolv.conf names this node by our hand, or systemd-resolved asks it: 1 or 0.", nil,
		truth(func(s *Sample) bool { return s.Status.ResolvConf.Ours || s.Status.ResolvConf.DropIn != "" })),
	gauge("resolvconf_wanted", "Whether it should: 0 where node-dns.yaml or somebody else says who writes the file.", nil,
		truth(func(s *Sample) bool { return s.Status.ResolvConf.Hold == "" || s.Status.ResolvConf.Ours })),
	counter("resolvconf_rewrites_total", "How often the host's files were to be written anew, by what showed it; hook: NetworkManager's hook wrote /etc/resolv.conf by itself.", []string{"reason"}, counts(func(s *Sample) map[string]uint64 { return s.Requests })),
	counter("nm_events_total", "What the daemon saw of NetworkManager on D-Bus that may concern DNS, by what it was; not the events that NetworkManager runs the hook for.", []string{"action"}, counts(func(s *Sample) map[string]uint64 { return s.Events })),

	gauge("config_last_reload_success_timestamp_seconds", "When the configuration files were taken over last.", nil, number(func(s *Sample) float64 { return float64(s.Config.Taken.UnixMilli()) / 1000 })),
	gauge("config_last_reload_successful", "Whether what the configuration files say now is in force: 1, or 0 when they have a fault.", nil, truth(func(s *Sample) bool { return s.Config.Good })),
	counter("reload_failed_total", "How often the configuration files were not taken over for a fault.", nil, number(func(s *Sample) uint64 { return s.Config.Failed })),

	counter("search_nxdomain_total", "Queries for names below the cluster's domain that do not exist: most are a search list's.", nil, number(func(s *Sample) uint64 { return s.SearchNXDomain })),
}

func counts(of func(*Sample) map[string]uint64) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		m := of(s)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			put.value(float64(m[key]), key)
		}
	}
}

// clusterRows are the metrics of the cluster data and its latency. They exist only if the
// Kubernetes API is watched.
var clusterRows = []row{
	gauge("cluster_synced", "Whether the cluster's names are answered from what the Kubernetes API says now: 1 or 0. Not shown where it is not watched.", nil,
		watched(func(r *control.Resolver) float64 { return one(r.FromDisk.IsZero() && r.Services+r.Namespaces > 0) })),
	gauge("cluster_objects", "What is known of the cluster.", []string{"kind"}, ofResolver(func(r *control.Resolver, _ *Sample, put puts) {
		put.value(float64(r.Services), "service")
		put.value(float64(r.Endpoints), "endpoint")
		put.value(float64(r.Namespaces), "namespace")
		put.value(float64(r.Pods), "pod")
		if r.Imports > 0 {
			put.value(float64(r.Imports), "import")
		}
	})),
	counter("cluster_events_total", "Changes that the Kubernetes API announced.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Events) })),
	counter("cluster_lists_total", "Lists of the Kubernetes API that were read to their end. A watch follows each, and goes on after an outage without another.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Lists) })),
	counter("cluster_lost_total", "Changes that a watch should have told of and did not, which a list compared with it has shown.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Lost) })),
	counter("cluster_limited_total", "What was not taken for a bound: changes of objects beyond those that are kept.",
		[]string{"limit"}, watched(func(r *control.Resolver) float64 { return float64(r.Dropped) }, "objects")),
	spread("kubernetes_dns_programming_duration_seconds", "Time from when a Service or a Pod behind it changed, by the EndpointSlice written for that, until names were answered by it.",
		[]string{"service_kind"}, ofResolver(func(_ *control.Resolver, s *Sample, put puts) {
			put.hist(&s.Programming.Headless, "headless_with_selector")
			if count, _, _ := s.Programming.ClusterIP.Buckets(); count > 0 {
				put.hist(&s.Programming.ClusterIP, "cluster_ip")
			}
		})),
	counter("kubernetes_dns_programming_untimed_total", "Such changes that were not timed: of a time to come (future), of over an hour ago or before the daemon watched (past), or too many at once (many).",
		[]string{"reason"}, ofResolver(func(_ *control.Resolver, s *Sample, put puts) {
			put.value(float64(s.Programming.Future), "future")
			put.value(float64(s.Programming.Past), "past")
			put.value(float64(s.Programming.Many), "many")
		})),
	counter("kubernetes_rest_client_requests_total", "Requests to the Kubernetes API by the code of its answer, or that there was none. A watch is one, and stands for minutes.",
		[]string{"code", "method", "host"}, ofResolver(func(_ *control.Resolver, s *Sample, put puts) {
			for request, n := range s.APIRequests {
				put.value(float64(n), request.Code, request.Method, request.Host)
			}
		})),
	counter("autopath_answered_total", "Queries that were answered with a name further on in the pod's search list.", nil,
		watched(func(r *control.Resolver) float64 { return float64(r.Autopath.Answered) })),
	counter("autopath_saved_total", "Queries that pods did not have to send for that.", nil,
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
func watched(of func(*control.Resolver) float64, labels ...string) func(*Sample, puts) {
	return ofResolver(func(r *control.Resolver, _ *Sample, put puts) { put.value(of(r), labels...) })
}

// coreDNSRows are metrics that CoreDNS no longer has, or has in its plugins, but that its
// dashboards use: dotdc's k8s-system-coredns (15762 at Grafana) and povilasv's coredns-mixin.
var coreDNSRows = []row{
	counter("forward_requests_total", "Queries sent to a nameserver; upstream_requests_total is the same.", []string{"to"}, each(queries)),
	counter("forward_responses_total", "Responses of a nameserver by what it said.", []string{"to", "rcode"}, func(s *Sample, put puts) {
		for _, u := range servers(s) {
			for i, rcode := range health.RcodeNames {
				count, _, _ := u.Durations[i].Buckets()
				put.value(float64(count), u.Server.String(), rcode)
			}
		}
	}),
	spread("forward_request_duration_seconds", "Time that a nameserver took to respond; proxy_request_duration_seconds is the same.", []string{"to", "rcode"}, func(s *Sample, put puts) {
		for _, u := range servers(s) {
			for i, rcode := range health.RcodeNames {
				put.hist(&u.Durations[i], u.Server.String(), rcode)
			}
		}
	}),
	counter("forward_healthcheck_failures_total", "Tries that a nameserver did not respond to; proxy_healthcheck_failures_total is the same.", []string{"to"}, each(failures)),
	counter("autopath_success_total", "Queries that were answered with a name further on in the pod's search list; autopath_answered_total is the same.", []string{"server"},
		watched(func(r *control.Resolver) float64 { return float64(r.Autopath.Answered) }, server)),
	gauge("plugin_enabled", "Which plugins of CoreDNS's have a counterpart that is in use.", and(whole, "name"), func(s *Sample, put puts) {
		put.value(1, server, zone, view, "forward")
		if s.Cache.Size > 0 {
			put.value(1, server, zone, view, "cache")
		}
		if r := s.Status.Cluster.Resolver; r != nil {
			put.value(1, server, zone, view, "kubernetes")
			if r.Autopath.On {
				put.value(1, server, zone, view, "autopath")
			}
		}
	}),
}
