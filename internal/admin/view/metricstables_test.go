package view

import (
	"maps"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/intercept"
)

// TestClusterRows proves that each number has its own name and that there are none if nothing is
// watched.
func TestClusterRows(t *testing.T) {
	read := func(s Sample) map[string]float64 {
		all := map[string]float64{}
		for _, r := range clusterRows {
			r.read(&s, puts{
				value: func(v float64, labels ...string) {
					name := r.name
					for _, label := range labels {
						name += " " + label
					}
					all[name] = v
				},
				hist: func(h buckets, labels ...string) {
					count, _, _ := h.Buckets()
					all[r.name+" "+labels[0]] = float64(count)
				},
			})
		}
		return all
	}
	if got := read(Sample{}); len(got) > 0 {
		t.Errorf("got %v without a cluster", got)
	}
	s := Sample{
		Programming: Programming{Future: 11, Past: 12, Many: 13},
		APIRequests: map[APIRequest]uint64{{"200", "GET", "api"}: 14},
	}
	s.Status.Cluster.Resolver = &control.Resolver{
		Services: 1, Endpoints: 2, Namespaces: 3, Pods: 4, Events: 5, Lists: 6, Lost: 7, Dropped: 8,
		Autopath: control.Autopath{Answered: 15, Saved: 16},
	}
	s.Programming.Headless.Add(1)
	want := map[string]float64{
		"cluster_synced": 1, "cluster_objects service": 1, "cluster_objects endpoint": 2, "cluster_objects namespace": 3, "cluster_objects pod": 4,
		"cluster_events_total": 5, "cluster_lists_total": 6, "cluster_lost_total": 7, "cluster_limited_total objects": 8,
		"kubernetes_dns_programming_duration_seconds headless_with_selector": 1,
		"kubernetes_dns_programming_untimed_total future":                    11,
		"kubernetes_dns_programming_untimed_total past":                      12,
		"kubernetes_dns_programming_untimed_total many":                      13,
		"kubernetes_rest_client_requests_total 200 GET api":                  14,
		"autopath_answered_total":                                            15, "autopath_saved_total": 16,
	}
	if got := read(s); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s.Programming.ClusterIP.Add(1)
	s.Programming.ClusterIP.Add(1)
	want["kubernetes_dns_programming_duration_seconds cluster_ip"] = 2
	if got := read(s); !maps.Equal(got, want) {
		t.Errorf("got %v with endpoints of all services, want %v", got, want)
	}
}

// TestIntercepted: an address that NodeLocal DNSCache has is not intercepted yet, and neither is
// one that the helper has not tried.
func TestIntercepted(t *testing.T) {
	s := Sample{}
	s.Status.Interception = &control.Interception{
		Wanted: []string{"10.96.0.10", "169.254.20.10", "fd00::a", "fd00::b"},
		Addresses: []control.Intercepted{
			{Address: "10.96.0.10", On: true, Mode: string(intercept.Local)},
			{Address: "169.254.20.10", On: true, Mode: string(intercept.Standby)},
			{Address: "fd00::a", Mode: string(intercept.Local), Why: "node-dns does not answer"},
		},
	}
	got := map[string]float64{}
	for _, r := range hostRows {
		if r.name == "intercepted" {
			r.read(&s, puts{value: func(v float64, labels ...string) { got[labels[0]] = v }})
		}
	}
	if want := map[string]float64{"10.96.0.10": 1, "169.254.20.10": 0, "fd00::a": 0, "fd00::b": 0}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
