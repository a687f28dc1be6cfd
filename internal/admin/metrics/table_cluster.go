package metrics

import "github.com/node-dns/node-dns/internal/admin/control"

// clusterRows are what is known of the cluster, and how soon. They are shown where the Kubernetes API is watched.
var clusterRows = []row{
	gauge("cluster_synced", "Whether the cluster's names are answered from what the Kubernetes API says now: 1 or 0. Not shown where it is not watched.", nil,
		ofResolver(func(r *control.Resolver, _ *Sample, put puts) {
			put.value(one(r.FromDisk.IsZero() && r.Services+r.Namespaces > 0))
		})),
	gauge("cluster_objects", "What is known of the cluster.", []string{"kind"}, ofResolver(func(r *control.Resolver, _ *Sample, put puts) {
		put.value(float64(r.Services), "service")
		put.value(float64(r.Endpoints), "endpoint")
		put.value(float64(r.Namespaces), "namespace")
		put.value(float64(r.Pods), "pod")
		if r.Imports > 0 {
			put.value(float64(r.Imports), "import")
		}
	})),
	counter("cluster_events_total", "Changes that the Kubernetes API announced.", nil, ofResolver(func(r *control.Resolver, _ *Sample, put puts) {
		put.value(float64(r.Events))
	})),
	counter("cluster_lists_total", "Lists of the Kubernetes API that were read to their end. A watch follows each, and goes on after an outage without another.", nil,
		ofResolver(func(r *control.Resolver, _ *Sample, put puts) { put.value(float64(r.Lists)) })),
	counter("cluster_lost_total", "Changes that a watch should have told of and did not, which a list compared with it has shown.", nil,
		ofResolver(func(r *control.Resolver, _ *Sample, put puts) { put.value(float64(r.Lost)) })),
	counter("cluster_limited_total", "What was not taken for a bound: changes of objects beyond those that are kept.",
		[]string{"limit"}, ofResolver(func(r *control.Resolver, _ *Sample, put puts) {
			put.value(float64(r.Dropped), "objects")
		})),
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
	counter("autopath_answered_total", "Queries that were answered with a name further on in the pod's search list.", nil, ofResolver(func(r *control.Resolver, _ *Sample, put puts) {
		put.value(float64(r.Autopath.Answered))
	})),
	counter("autopath_saved_total", "Queries that pods did not have to send for that.", nil, ofResolver(func(r *control.Resolver, _ *Sample, put puts) {
		put.value(float64(r.Autopath.Saved))
	})),
}

// ofResolver reads a row that is shown where the Kubernetes API is watched.
func ofResolver(read func(r *control.Resolver, s *Sample, put puts)) func(*Sample, puts) {
	return func(s *Sample, put puts) {
		if r := s.Status.Cluster.Resolver; r != nil {
			read(r, s, put)
		}
	}
}
