package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/kubetest"
	"github.com/node-dns/node-dns/internal/zone"
)

// shops are Services with a ClusterIP, as their controllers make slices for them.
const shops = `
{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default}, spec: {clusterIP: 10.96.0.1}}
---
{apiVersion: v1, kind: Service, metadata: {name: shoes, namespace: one}, spec: {clusterIP: 10.96.0.2, selector: {app: shoes}}}
---
{apiVersion: v1, kind: Service, metadata: {name: hats, namespace: one}, spec: {clusterIP: 10.96.0.3, selector: {app: shoes}}}
---
{apiVersion: v1, kind: Service, metadata: {name: by-hand, namespace: two}, spec: {clusterIP: 10.96.0.4}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: shoes-1
  namespace: one
  labels: {kubernetes.io/service-name: shoes, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: shoes-2
  namespace: one
  labels: {kubernetes.io/service-name: shoes, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}
addressType: IPv6
endpoints: [{addresses: ["fd00::1"]}, {addresses: ["fd00::2"]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: hats-1
  namespace: one
  labels: {kubernetes.io/service-name: hats, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], conditions: {ready: false}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: by-hand-1, namespace: two, labels: {kubernetes.io/service-name: by-hand}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.9]}]
---
apiVersion: v1
kind: Pod
metadata: {name: shoes-0, namespace: one}
status: {phase: Running, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: "fd00::1"}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: alone, namespace: two}, status: {phase: Running, podIP: 10.1.0.5}}
---
{apiVersion: v1, kind: Pod, metadata: {name: job, namespace: two}, status: {phase: Succeeded, podIP: 10.1.0.1}}
`

// The lists that a search may consist of, as sought has them.
const (
	ofPods   = "pods"
	ofOne    = "slices of one"
	ofTwo    = "slices of two"
	ofOthers = "others' slices"
	ofAll    = "all slices"
)

// sought says what was asked for addresses since the first n requests.
func sought(s *kubetest.Server, n int) []string {
	var all []string
	for _, r := range s.Requests()[n:] {
		namespace, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/apis/discovery.k8s.io/v1/namespaces/"), "/")
		switch {
		case r.Watch:
		case strings.HasPrefix(r.Fields, "status.podIP="):
			all = append(all, ofPods)
		case r.Labels == byOthers:
			all = append(all, ofOthers)
		case r.Labels == notHeadless && namespace == "":
			all = append(all, ofAll)
		case r.Labels == notHeadless:
			all = append(all, "slices of "+namespace)
		}
	}
	return all
}

func shopWorld(t *testing.T) (*world, *wire) {
	t.Helper()
	w, network := newFakeWorld(t)
	w.server.Apply(shops)
	w.start()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	return w, network
}

// at returns the Services with slices that have the address.
func (w *world) at(addr string) (string, error) {
	found, err := w.watcher.At(w.t.Context(), netip.MustParseAddr(addr))
	var all []string
	for _, s := range found {
		all = append(all, s.Namespace+"/"+s.Service)
		if len(s.Endpoints) != 1 || s.Endpoints[0].Addr.String() != addr {
			w.t.Errorf("at %s: %v", addr, s.Endpoints)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " "), err
}

func TestAt(t *testing.T) {
	tests := []struct {
		name, addr, want string
		asks             []string
	}{
		{"a pod of two Services", "10.1.0.1", "one/hats one/shoes", []string{ofPods, ofOne}},
		{"a pod of none", "10.1.0.5", "", []string{ofPods, ofTwo, ofOthers}},
		{"no pod, by hand", "10.1.0.9", "two/by-hand", []string{ofPods, ofOthers}},
		{"nobody", "10.1.0.77", "", []string{ofPods, ofOthers}},
		{"the second address of a pod", "fd00::1", "one/shoes", []string{ofAll}},
		{"nobody's IPv6 address", "fd00::77", "", []string{ofAll}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fakeTime(t, func(t *testing.T) {
				w, _ := shopWorld(t)
				before := len(w.server.Requests())
				var group sync.WaitGroup
				for range 50 {
					group.Go(func() {
						if got, err := w.at(test.addr); err != nil || got != test.want {
							t.Errorf("%q, %v, want %q", got, err, test.want)
						}
					})
				}
				group.Wait()
				if asks := sought(w.server, before); !slices.Equal(asks, test.asks) {
					t.Errorf("50 questions at once: %q, want %q", asks, test.asks)
				}
				time.Sleep(placeKept - time.Second)
				if got, err := w.at(test.addr); err != nil || got != test.want {
					t.Errorf("again: %q, %v", got, err)
				}
				if asks := sought(w.server, before); len(asks) != len(test.asks) {
					t.Errorf("it is not remembered: %q", asks)
				}
				time.Sleep(time.Second)
				if got, err := w.at(test.addr); err != nil || got != test.want {
					t.Errorf("at last: %q, %v", got, err)
				}
				if asks := sought(w.server, before); len(asks) != 2*len(test.asks) {
					t.Errorf("it is remembered too long: %q", asks)
				}
			})
		})
	}
}

// What is watched needs no search, unless it leaves open whether another Service has the address.
func TestAtOfDemands(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := shopWorld(t)
		countOf(t, w, zone.Key{Namespace: "one", Name: "hats"})
		if got, err := w.at("10.1.0.1"); err != nil || got != "one/hats one/shoes" {
			t.Errorf("one that is not ready is watched: %q, %v", got, err)
		}
		before := len(w.server.Requests())
		countOf(t, w, zone.Key{Namespace: "one", Name: "shoes"})
		if got, err := w.at("10.1.0.2"); err != nil || got != "one/shoes" || len(sought(w.server, before)) != 0 {
			t.Errorf("%q, %v after %q", got, err, sought(w.server, before))
		}
	})
}

// Without the right to list Pods all slices are read; without that nobody is told that there is nothing.
func TestAtByRight(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := shopWorld(t)
		w.server.Deny("list", "pods")
		before := len(w.server.Requests())
		for _, addr := range []string{"10.1.0.1", "10.1.0.9"} {
			if got, err := w.at(addr); err != nil || got == "" {
				t.Errorf("%s without Pods: %q, %v", addr, got, err)
			}
		}
		if got, err := w.at("10.1.0.77"); err != nil || got != "" {
			t.Errorf("nobody, without Pods: %q, %v", got, err)
		}
		asks := sought(w.server, before)
		if pods := len(asks) - len(slices.DeleteFunc(slices.Clone(asks), func(ask string) bool { return ask == ofPods })); pods > seekers {
			t.Errorf("asked again for what was denied: %q", asks)
		}
		w.server.Deny("list", "endpointslices")
		time.Sleep(placeKept)
		_, err := w.at("10.1.0.1")
		if err == nil || !strings.Contains(err.Error(), "no right to list endpointslices.discovery.k8s.io") {
			t.Error(err)
		}
		w.server.Grant("list", "endpointslices")
		if got, err := w.at("10.1.0.1"); err != nil || got != "one/hats one/shoes" {
			t.Errorf("a failure is remembered: %q, %v", got, err)
		}
		w.server.Grant("list", "pods")
		time.Sleep(podsAgain)
		before = len(w.server.Requests())
		if _, err := w.at("10.1.0.1"); err != nil || !slices.Equal(sought(w.server, before), []string{ofPods, ofOne}) {
			t.Errorf("with the right again: %q, %v", sought(w.server, before), err)
		}
	})
}

// Pods with the network of their host share its address, in more namespaces than are worth a list each.
func TestAtOfManyNamespaces(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := shopWorld(t)
		for i := range maxNamespaces {
			w.server.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: more, namespace: more-%d}, `+
				`spec: {hostNetwork: true}, status: {phase: Running, podIP: 10.1.0.1}}`, i))
		}
		before := len(w.server.Requests())
		got, err := w.at("10.1.0.1")
		if asks := sought(w.server, before); err != nil || got != "one/hats one/shoes" || !slices.Equal(asks, []string{ofPods, ofAll}) {
			t.Errorf("%q, %v after %q", got, err, asks)
		}
	})
}

// Somebody asks for all addresses of the network: few are sought, and the others are no worse off for long.
func TestAtIsBounded(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := shopWorld(t)
		nobody := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}) }
		before := len(w.server.Requests())
		var group sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for i := range 1000 {
			group.Go(func() {
				_, err := w.watcher.At(t.Context(), nobody(i))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, errTooManyPlaces):
					refused++
				case err != nil:
					t.Error(err)
				}
			})
		}
		group.Wait()
		const most = int(seekCredit/seekPrice) + 1
		if asks := len(sought(w.server, before)) / 2; asks != 1000-refused || asks > most || asks < placesAsked {
			t.Errorf("%d sought, %d refused", asks, refused)
		}
		time.Sleep(seekCredit)
		if got, err := w.at("10.1.0.1"); err != nil || got == "" {
			t.Errorf("a while after: %q, %v", got, err)
		}
		if shed := w.watcher.State().Shed; shed != uint64(refused) {
			t.Errorf("%d shed, want %d", shed, refused)
		}
	})
}

// A search that had to read much is paid off before the next: those that wait are told so.
func TestAtIsPaidFor(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := shopWorld(t)
		const more = 2000
		for i := range more {
			w.server.Apply(fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: more-%d, namespace: one, `+
				`labels: {kubernetes.io/service-name: shoes}}, addressType: IPv6, endpoints: [{addresses: ["fd00::3"]}]}`, i))
		}
		if got, err := w.at("fd00::1"); err != nil || got != "one/shoes" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := w.at("fd00::2"); !errors.Is(err, errTooManyPlaces) {
			t.Errorf("the next: %v", err)
		}
		time.Sleep(more*slicePrice - seekCredit + time.Second)
		if got, err := w.at("fd00::2"); err != nil || got != "one/shoes" {
			t.Errorf("when it is paid off: %q, %v", got, err)
		}
	})
}

// No more addresses are remembered than there is room for: the oldest are forgotten, and none that is being sought.
func TestPlacesAreBounded(t *testing.T) {
	var p places
	p.init()
	p.connect()
	now := time.Now()
	addrOf := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}) }
	first, err := p.want(addrOf(0), now)
	if err != nil {
		t.Fatal(err)
	}
	<-p.asked
	for i := 1; i < 3*maxPlaces; i++ {
		now = now.Add(seekPrice)
		of, err := p.want(addrOf(i), now)
		if err != nil {
			t.Fatal(err)
		}
		<-p.asked
		of.until = now.Add(placeKept + time.Duration(i)*time.Hour)
		close(of.ready)
	}
	if len(p.byAddr) != maxPlaces || p.byAddr[first.addr] != first || p.byAddr[addrOf(3*maxPlaces-1)] == nil || p.byAddr[addrOf(1)] != nil {
		t.Errorf("%d are remembered", len(p.byAddr))
	}
	if again, err := p.want(first.addr, now); err != nil || again != first {
		t.Error("the one that is being sought is sought again")
	}
}

// Who asks gets an answer, whatever the server does, and nobody is told that there is nothing.
func TestAtFails(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := shopWorld(t)
		w.server.SetFaults(kubetest.Faults{Status: 500, Lists: true})
		if _, err := w.at("10.1.0.1"); err == nil {
			t.Error("no error with status 500")
		}
		w.server.SetFaults(kubetest.Faults{CutList: true, Lists: true})
		if _, err := w.at("10.1.0.1"); err == nil {
			t.Error("no error with half a list")
		}
		w.server.SetFaults(kubetest.Faults{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := w.watcher.At(ctx, netip.MustParseAddr("10.1.0.1")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		began := time.Now()
		if _, err := w.at("10.1.0.1"); !errors.Is(err, errStalled) || time.Since(began) > seekPatience {
			t.Error(err)
		}
		network.setDown(true)
		if _, err := w.at("10.1.0.1"); err == nil {
			t.Error("no error while the server is away")
		}
		w.stop()
		if _, err := w.at("10.1.0.1"); !errors.Is(err, errOffline) {
			t.Error(err)
		}
	})
}

// The end of a session answers those who wait for their turn, and what it had found is not the next one's.
func TestAtWhileSessionEnds(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := shopWorld(t)
		if got, err := w.at("10.1.0.1"); err != nil || got == "" {
			t.Errorf("%q, %v", got, err)
		}
		w.server.SetFaults(kubetest.Faults{Hang: true})
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				if got, err := w.at(fmt.Sprint("10.1.1.", i)); err == nil {
					t.Errorf("%q", got)
				}
			})
		}
		synctest.Wait()
		w.stop()
		group.Wait()
		if _, err := w.at("10.1.0.1"); !errors.Is(err, errOffline) {
			t.Error(err)
		}
	})
}

// Where all slices are known there is nothing to ask for, not even when the server is away.
func TestAtWhereAllIsKnown(t *testing.T) {
	for _, old := range []bool{true, false} {
		t.Run(fmt.Sprint("old=", old), func(t *testing.T) {
			fakeTime(t, func(t *testing.T) {
				w, network := newFakeWorld(t)
				if old {
					w.server.Old()
				} else {
					w.config.Features.AllSlices = true
				}
				w.server.Apply(readFixture(t, "node-dns"))
				w.start()
				time.Sleep(10 * time.Second)
				if got, err := w.at("172.30.1.1"); err != nil || got != "" {
					t.Errorf("%q, %v", got, err)
				}
				w.stop()
				network.setDown(true)
				w.start()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if s := w.snapshot(); s == nil || !s.IsStale() {
					t.Error("nothing is known from before")
				}
				if got, err := w.at("172.30.1.1"); err != nil || got != "" {
					t.Errorf("from before: %q, %v", got, err)
				}
				if asks := sought(w.server, 0); len(asks) != 0 {
					t.Errorf("asked for %q", asks)
				}
			})
		})
	}
}
