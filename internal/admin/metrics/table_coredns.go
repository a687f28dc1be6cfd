package metrics

import (
	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/health"
)

// coreDNSRows are what CoreDNS no longer has, or has of its plugins, and dashboards made for it ask for: dotdc's
// k8s-system-coredns (15762 of Grafana's) and povilasv's coredns-mixin.
var coreDNSRows = []row{
	counter("forward_requests_total", "Queries sent to a nameserver; upstream_requests_total is the same.", []string{"to"}, each(func(u forward.ServerStatus, put func(float64, ...string)) {
		put(float64(u.Queries), u.Server.String())
	})),
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
	counter("forward_healthcheck_failures_total", "Tries that a nameserver did not respond to; proxy_healthcheck_failures_total is the same.", []string{"to"}, each(func(u forward.ServerStatus, put func(float64, ...string)) {
		put(float64(u.Failures), u.Server.String())
	})),
	counter("autopath_success_total", "Queries that were answered with a name further on in the pod's search list; autopath_answered_total is the same.", []string{"server"},
		ofResolver(func(r *control.Resolver, _ *Sample, put puts) { put.value(float64(r.Autopath.Answered), server) })),
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
