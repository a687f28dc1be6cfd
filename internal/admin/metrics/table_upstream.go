package metrics

import (
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/health"
)

// maxInfos bounds how many pairs of a domain and a nameserver are shown: routes may be thousands.
const maxInfos = 500

// proxy is CoreDNS' proxy_name of what plugin forward asks.
const proxy = "forward"

// upstreamRows are what was asked of other nameservers.
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
		[]string{"proxy_name", "to"}, each(func(u forward.ServerStatus, put func(float64, ...string)) {
			put(float64(u.Failures), proxy, u.Server.String())
		})),
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
		[]string{"to"}, each(func(u forward.ServerStatus, put func(float64, ...string)) {
			if u.Transport != "" {
				put(one(u.Transport == forward.Opportunistic), u.Server.String())
			}
		})),
	gauge("upstream_info", "Which nameserver is asked for which domain, who named it, and the interface that it is asked over where that is said.",
		[]string{"to", "domain", "source", "interface"}, infos),
	counter("upstream_requests_total", "Queries sent to a nameserver.", []string{"to"}, each(func(u forward.ServerStatus, put func(float64, ...string)) {
		put(float64(u.Queries), u.Server.String())
	})),
	counter("upstream_retries_total", "Questions that were sent to a nameserver again, as it was silent to them.", []string{"to"}, each(func(u forward.ServerStatus, put func(float64, ...string)) {
		put(float64(u.Retries), u.Server.String())
	})),
	gauge("upstream_rtt_seconds", "How long a nameserver takes to respond, smoothed.", []string{"to"}, each(func(u forward.ServerStatus, put func(float64, ...string)) {
		if u.RTT > 0 {
			put(u.RTT.Seconds(), u.Server.String())
		}
	})),
}

// each reads a row with one value for each nameserver.
func each(of func(u forward.ServerStatus, put func(float64, ...string))) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		for _, u := range servers(s) {
			of(u, put.value)
		}
	}
}

// servers are the nameservers of all routes, each once.
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
