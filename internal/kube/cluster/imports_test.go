package cluster

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

const imported = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {namespace: alpha, name: shared}
spec: {type: ClusterSetIP, ips: [10.42.0.1], ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {namespace: alpha, name: db}
spec: {type: Headless, ports: [{port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: alpha
  name: db-of-east
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: east}
addressType: IPv4
ports: [{port: 5432}]
endpoints: [{addresses: [10.43.0.1], hostname: db-0}]
`

// Results of a query other than addresses and an rcode.
const (
	elsewhere = "asked elsewhere"
	unknown   = "not known"
)

// clusterSet returns the result of a query for a name in the clusterset domain.
func (w *world) clusterSet(name string) string {
	w.t.Helper()
	isElsewhere := false
	resolver := zone.NewResolver(zone.Config{
		Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}, ClusterSet: dnsname.MustParse(zone.ClusterSet),
		Next: dnsserver.HandlerFunc(func(context.Context, *dnsserver.Query) (*dns.Msg, error) {
			isElsewhere = true
			return new(dns.Msg), nil
		}),
	})
	resolver.Set(w.snapshot())
	full := name + "." + zone.ClusterSet
	q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(full+".", dns.TypeA), Name: dnsname.MustParse(full), Proto: dnsserver.UDP}
	m, err := resolver.ServeDNS(w.t.Context(), q)
	switch {
	case isElsewhere:
		return elsewhere
	case err != nil:
		return unknown
	}
	var all []string
	for _, rr := range m.Answer {
		all = append(all, rr.(*dns.A).A.String())
	}
	if len(all) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	return strings.Join(all, " ")
}

// TestImports: services that other clusters export are answered while the API has readable
// ServiceImports, even after a restart, and even if the API appears later.
func TestImports(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newFakeWorld(t)
		w.server.Apply(readFixture(t, "node-dns"))
		w.server.Apply(imported)
		w.config.CompareEvery = 1000 * time.Hour
		wants := func(when, shared, db string) {
			t.Helper()
			synctest.Wait()
			if got := w.clusterSet("shared.alpha.svc"); got != shared {
				t.Errorf("%s: the ClusterSetIP is %q, want %q", when, got, shared)
			}
			if got := w.clusterSet("db-0.east.db.alpha.svc"); got != db {
				t.Errorf("%s: the endpoint is %q, want %q", when, got, db)
			}
			if w.snapshot().Service(zone.Key{Namespace: "alpha", Name: "web"}) == nil {
				t.Errorf("%s: the cluster's own names are missing: %+v", when, w.watcher.State())
			}
		}
		w.start()
		time.Sleep(time.Minute)
		wants("without the API", elsewhere, elsewhere)

		asked := len(w.server.Requests())
		w.server.SetImports(true)
		time.Sleep(90 * time.Minute)
		wants("90 minutes after the API appears", "10.42.0.1", "10.43.0.1")
		services := 0
		for _, r := range w.server.Requests()[asked:] {
			if strings.HasSuffix(r.Path, "/services") && isWholeList(r) {
				services++
			}
		}
		if services > 0 {
			t.Errorf("got %d lists of all Services, want 0", services)
		}

		w.stop()
		network.SetDown(true)
		w.start()
		time.Sleep(time.Minute)
		wants("from the saved state", "10.42.0.1", "10.43.0.1")
		network.SetDown(false)
		time.Sleep(time.Minute)
		wants("after the restart", "10.42.0.1", "10.43.0.1")
		w.server.Delete("EndpointSlice", "alpha", "db-of-east")
		w.server.Delete("ServiceImport", "alpha", "shared")
		time.Sleep(time.Second)
		wants("deleted", "NXDOMAIN", "NXDOMAIN")

		w.server.Deny("list", "serviceimports")
		w.server.Deny("watch", "serviceimports")
		w.server.CloseWatches()
		time.Sleep(time.Minute)
		wants("without permission", unknown, unknown)
		if s := w.watcher.State(); len(s.Missing) == 0 || s.Missing[0].Resource != "serviceimports" {
			t.Errorf("missing permission is not reported: got state %+v", s)
		}
		w.server.Grant("list", "serviceimports")
		w.server.Grant("watch", "serviceimports")
		time.Sleep(time.Minute)
		wants("with permission again", "NXDOMAIN", "NXDOMAIN")

		w.server.SetImports(false)
		w.server.CloseWatches()
		time.Sleep(time.Minute)
		wants("API removed", elsewhere, elsewhere)
		if w.snapshot().Imports() != nil {
			t.Error("clusterset names are still answered")
		}
		w.stop()
	})
}

// TestSilentImports: a server that does not report whether it has ServiceImports delays nothing.
// The last known imports hold until it does.
func TestSilentImports(t *testing.T) {
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusForbidden} {
		fakeTime(t, func(t *testing.T) { silentImports(t, code) })
	}
}

func silentImports(t *testing.T, code int) {
	t.Helper()
	w, network := newFakeWorld(t)
	w.server.Apply(readFixture(t, "node-dns"))
	w.server.Apply(imported)
	w.server.SetImports(true)
	w.server.SetSilentImports(code)
	wants := func(when, want string) {
		t.Helper()
		synctest.Wait()
		if got, s := w.clusterSet("shared.alpha.svc"), w.watcher.State(); got != want || s.Phase != Synced {
			t.Errorf("%s: %q, want %q; %+v", when, got, want, s)
		}
	}
	w.start()
	time.Sleep(10 * time.Second)
	wants("at the start", unknown)
	network.SetDown(true)
	network.SetDown(false)
	time.Sleep(10 * time.Second)
	wants("in a second session", unknown)
	w.server.SetSilentImports(0)
	time.Sleep(time.Minute)
	wants("when it has said", "10.42.0.1")
	w.server.SetSilentImports(code)
	network.SetDown(true)
	time.Sleep(10 * time.Second)
	network.SetDown(false)
	time.Sleep(30 * time.Second)
	wants("after an outage", "10.42.0.1")
	w.stop()
	w.start()
	time.Sleep(10 * time.Second)
	wants("after a restart", "10.42.0.1")
	w.stop()
}

// TestBrokenImports: if ServiceImports fail to convert, or their requests hang, the cluster's own
// names are still answered.
func TestBrokenImports(t *testing.T) {
	for _, fault := range []kubetest.Faults{{Status: 500}, {Hang: true}, {Status: 404}} {
		fakeTime(t, func(t *testing.T) {
			w, _ := newFakeWorld(t)
			w.server.Apply(readFixture(t, "node-dns"))
			w.server.Apply(imported)
			w.server.SetImports(true)
			fault.Imports = true
			w.server.SetFaults(fault)
			w.start()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if s := w.watcher.State(); s.Phase != Synced || w.snapshot().IsStale() || w.clusterSet("shared.alpha.svc") != unknown {
				t.Errorf("%+v: %+v", fault, s)
			}
			w.server.SetFaults(kubetest.Faults{})
			w.server.CloseWatches() // also ends hanging requests
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := w.clusterSet("shared.alpha.svc"); got != "10.42.0.1" {
				t.Errorf("after the fault: %q; %+v", got, w.watcher.State())
			}
			w.stop()
		})
	}
}

// TestImportsFailForLong: imports that cannot be watched for long are no longer answered, even
// after a restart.
func TestImportsFailForLong(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := newFakeWorld(t)
		w.server.Apply(readFixture(t, "node-dns"))
		w.server.Apply(imported)
		w.server.SetImports(true)
		wants := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := w.clusterSet("shared.alpha.svc"); got != want {
				t.Errorf("%s: %q, want %q; %+v", when, got, want, w.watcher.State())
			}
		}
		w.start()
		time.Sleep(time.Minute)
		wants("at the start", "10.42.0.1")
		w.server.SetFaults(kubetest.Faults{Status: 500, Imports: true})
		w.server.CloseWatches()
		time.Sleep(staleAfter / 2)
		wants("at first", "10.42.0.1")
		time.Sleep(2 * staleAfter)
		wants("after long", unknown)
		if s := w.watcher.State(); s.Phase != Synced || w.snapshot().IsStale() {
			t.Errorf("the cluster's own names: %+v", s)
		}
		w.stop()
		network.SetDown(true)
		w.start()
		time.Sleep(time.Minute)
		wants("after a restart without the API", unknown)
		w.server.SetFaults(kubetest.Faults{})
		network.SetDown(false)
		time.Sleep(time.Minute)
		wants("when it works", "10.42.0.1")
		w.stop()
	})
}

// TestImportsHaveTheirOwnAddresses: imports have a separate address index, because two clusters may
// use the same address.
func TestImportsHaveTheirOwnAddresses(t *testing.T) {
	s := newStore(Features{})
	s.setImports(true)
	at := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	imports := s.builder.Imports()
	s.builder.SetService(&zone.Service{Key: zone.Key{Namespace: "n", Name: "ours"}, ClusterIPs: at})
	imports.SetService(&zone.Service{Key: zone.Key{Namespace: "n", Name: "theirs"}, ClusterIPs: at})
	s.setImports(false)
	if s.builder.Imports() != nil || s.builder.Snapshot(time.Now()).Service(zone.Key{Namespace: "n", Name: "ours"}) == nil {
		t.Error("removing the imports removed a local address")
	}
}
