package resolve

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/zone"
)

// TestClusterNamesOfAnother: what the watcher of another kubeconfig says is not served. It may still be at work when its
// successor has been appointed, and where that one's API server does not answer the names would have stayed.
func TestClusterNamesOfAnother(t *testing.T) {
	snapshot := new(zone.Builder).Snapshot(time.Time{})
	resolver := zone.NewResolver(zone.Config{Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}})
	var names clusterNames
	names.replace(resolver, "old", func() {})
	names.replace(resolver, "new", func() {})
	names.publish("old", snapshot)
	if resolver.Snapshot() != nil {
		t.Error("the old cluster's names are served")
	}
	names.publish("new", snapshot)
	if resolver.Snapshot() != snapshot {
		t.Error("the new cluster's are not")
	}
}

// TestWaitsOverApply: a query that waits for the first word of the cluster is answered by it, whatever Policy is in force by then. It
// waited for the Resolver of its own, which was told nothing any more: SERVFAIL in the first moments of one start in ten.
func TestWaitsOverApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(config(0), policyOf(t, master, ""))
		defer r.Close()
		answer := make(chan string)
		go func() {
			m, err := r.ServeDNS(t.Context(), clientQuery("web.shop.svc.cluster.local.", "192.0.2.10"))
			answer <- fmt.Sprint(m, err)
		}()
		synctest.Wait()
		r.Apply(policyOf(t, master, ""))
		r.Publish(r.Policy().API.Kubeconfig, bazaar())
		if got := <-answer; !strings.Contains(got, "172.30.0.9") {
			t.Error(got)
		}
	})
}
