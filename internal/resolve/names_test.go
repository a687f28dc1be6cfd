package resolve

import (
	"errors"
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

// TestWaitsForSnapshot: a query waits for the first snapshot as long as its client does, unless the
// watcher reports that there is none. It waited for 1 s, so a slow restart caused SERVFAIL.
func TestWaitsForSnapshot(t *testing.T) {
	for name, row := range map[string]struct {
		after  time.Duration
		report func(*Resolver, string)
		want   string // part of the answer
		took   time.Duration
	}{
		"a slow start":     {4 * time.Second, func(r *Resolver, of string) { r.Publish(of, bazaar()) }, "172.30.0.9", 4 * time.Second},
		"too slow a start": {5 * time.Second, func(r *Resolver, of string) { r.Publish(of, bazaar()) }, "has not been read yet", 4500 * time.Millisecond},
		"no snapshot":      {time.Second, func(r *Resolver, of string) { r.Unready(of, errors.New("no API")) }, "no API", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(config(0), policyOf(t, master, ""))
				defer r.Close()
				reporter := time.AfterFunc(row.after, func() { row.report(r, r.Policy().API.Kubeconfig) })
				defer reporter.Stop()
				began := time.Now()
				m, err := r.ServeDNS(t.Context(), clientQuery("web.shop.svc.cluster.local.", "192.0.2.10"))
				if got := fmt.Sprint(m, err); !strings.Contains(got, row.want) || time.Since(began) != row.took {
					t.Errorf("after %v: %s", time.Since(began), got)
				}
			})
		})
	}
}
