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

// TestClusterNamesOfAnother: data from the watcher of another kubeconfig is not used. That watcher
// may still run when its successor has started, and if the new API server did not respond, the old
// names would have stayed.
func TestClusterNamesOfAnother(t *testing.T) {
	snapshot := new(zone.Builder).Snapshot(time.Time{})
	resolver := zone.NewResolver(zone.Config{Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}})
	var names clusterNames
	names.replace(resolver, "old", func() {})
	names.replace(resolver, "new", func() {})
	names.publish("old", snapshot)
	if resolver.Snapshot() != nil {
		t.Error("the old cluster's names are still served")
	}
	names.publish("new", snapshot)
	if resolver.Snapshot() != snapshot {
		t.Error("the new cluster's names are not served")
	}
}

// TestWaitsOverApply: a query that waits for the first snapshot is answered from it, whichever
// Policy is then in effect. It used to wait for its own Resolver, which got no more updates:
// SERVFAIL in the first moments of one start in ten.
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
