package daemon

import (
	"testing"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestRequestMetric: requests to the API server, answered or not, are counted under CoreDNS's
// metric name and labels.
func TestRequestMetric(t *testing.T) {
	t.Parallel()
	api := kubetest.NewServer(t)
	api.Apply(shop)
	r, address := withMetrics(t, map[string]string{upstreamPath: "", kubeconfigPath: string(api.Kubeconfig())}, "")
	r.synced()
	const name = "nodedns_kubernetes_rest_client_requests_total"
	r.await("lists and watches are counted", func() bool {
		return r.value(address, name, `code="200"`, `method="GET"`, `host="127.0.0.1:`) >= 6
	})
	r.await("lists are counted, and no limit is reached", func() bool {
		return r.value(address, "nodedns_cluster_lists_total") >= 3 && r.value(address, "nodedns_cluster_lost_total") == 0 &&
			r.value(address, "nodedns_cluster_limited_total", `limit="objects"`) == 0
	})
	api.SetFaults(kubetest.Faults{Status: 503})
	api.CloseWatches()
	r.await("a refusal is counted", func() bool { return r.value(address, name, `code="503"`) > 0 })
	api.Close()
	r.await("a missing response is counted", func() bool { return r.value(address, name, `code="<error>"`) > 0 })
}
