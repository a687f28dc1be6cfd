package cluster

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

func hasService(namespace, name string) func(*zone.Snapshot) bool {
	return func(s *zone.Snapshot) bool { return s.Service(zone.Key{Namespace: namespace, Name: name}) != nil }
}

func endpointsOf(s *zone.Snapshot, namespace, name string) (n int) {
	for slice := range s.Slices() {
		if slice.Namespace == namespace && slice.Service == name {
			n += len(slice.Endpoints)
		}
	}
	return n
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.await("the first state", func(s *zone.Snapshot) bool { return !s.IsStale() })
	s := w.snapshot()
	if got := s.Counts(); got.Services != len(w.server.Objects("Service")) || got.Namespaces != len(w.server.Objects("Namespace")) {
		t.Errorf("got counts %+v", got)
	}
	for name, want := range map[string]int{
		"hl":       4, // written by endpointslice-controller, with the headless label
		"hl-multi": 3, // written by endpointslicemirroring-controller
		"hl-dual":  5, // written by hand
		"web":      3, // of a ClusterIP Service
	} {
		if got := endpointsOf(s, "alpha", name); got != want {
			t.Errorf("%s has %d endpoints, want %d", name, got, want)
		}
	}

	w.server.Apply(`
apiVersion: v1
kind: Service
metadata: {name: late, namespace: alpha}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: late-1, namespace: alpha, labels: {kubernetes.io/service-name: late}}
addressType: IPv4
endpoints: [{addresses: [172.30.9.1]}]
`)
	w.await("a headless Service without selector, and its slice", func(s *zone.Snapshot) bool {
		return endpointsOf(s, "alpha", "late") == 1 && endpointsOf(s, "alpha", "hl-multi") == 3
	})
	w.server.Delete("EndpointSlice", "alpha", "late-1")
	w.await("the slice is gone", func(s *zone.Snapshot) bool { return endpointsOf(s, "alpha", "late") == 0 })
	w.server.Delete("Service", "alpha", "web")
	w.await("the Service is gone", func(s *zone.Snapshot) bool { return !hasService("alpha", "web")(s) })
	w.server.Delete("Namespace", "", "empty-ns")
	w.await("the namespace is gone", func(s *zone.Snapshot) bool {
		return s.Counts().Namespaces == len(w.server.Objects("Namespace"))
	})

	state := w.awaitPhase(Synced)
	if state.LastError != "" || !strings.HasPrefix(state.Server, "https://127.0.0.1:") || state.Lost != 0 {
		t.Errorf("got state %+v", state)
	}
	for _, r := range w.server.Requests() {
		switch {
		case r.Agent != "node-dns/test":
			t.Errorf("User-Agent %q", r.Agent)
		case strings.HasSuffix(r.Path, "s") && !r.Watch && r.Version == "":
			t.Errorf("list request reads from etcd: %+v", r)
		}
	}
}

func TestWatchOldAPI(t *testing.T) {
	w := newWorld(t)
	w.server.Old()
	w.server.Apply(readFixture(t, "openshift-3.11"))
	w.start()
	w.await("the first state", func(s *zone.Snapshot) bool { return endpointsOf(s, "e2e-dns", "clusterip") == 4 })
	w.server.Apply(`
apiVersion: v1
kind: Endpoints
metadata: {name: clusterip, namespace: e2e-dns}
subsets: [{addresses: [{ip: 1.1.1.7}]}]
`)
	w.await("another endpoint", func(s *zone.Snapshot) bool { return endpointsOf(s, "e2e-dns", "clusterip") == 1 })
	for slice := range w.snapshot().Slices() {
		if slice.Service == "clusterip" && slice.Endpoints[0].Addr.String() != "1.1.1.7" {
			t.Errorf("got slice %v", slice)
		}
	}
}
