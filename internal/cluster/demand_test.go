package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/kubetest"
	"github.com/node-dns/node-dns/internal/zone"
)

var web = zone.Key{Namespace: "alpha", Name: "web"}

// asks counts the requests for one Service's slices.
func asks(s *kubetest.Server) (lists, watches int) {
	for _, r := range s.Requests() {
		if strings.HasPrefix(r.Labels, serviceLabel+"=") {
			if r.Watch {
				watches++
			} else {
				lists++
			}
		}
	}
	return lists, watches
}

func demandWorld(t *testing.T) (*world, *wire) {
	t.Helper()
	w, network := newFakeWorld(t)
	w.server.Apply(readFixture(t, "node-dns"))
	w.start()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	return w, network
}

func countOf(t *testing.T, w *world, service zone.Key) (n int) {
	t.Helper()
	slices, err := w.watcher.Of(t.Context(), service)
	if err != nil {
		t.Error(err)
	}
	for _, s := range slices {
		n += len(s.Endpoints)
	}
	return n
}

func TestOf(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := demandWorld(t)
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if got := countOf(t, w, web); got != 3 {
					t.Errorf("%d endpoints, want 3", got)
				}
			})
		}
		group.Wait()
		if lists, watches := asks(w.server); lists != 1 || watches > 1 {
			t.Errorf("50 questions at once: %d lists, %d watches", lists, watches)
		}
		w.server.Apply(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-more, namespace: alpha, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [172.30.1.77]}]
`)
		synctest.Wait()
		if got := countOf(t, w, web); got != 4 {
			t.Errorf("a change: %d endpoints, want 4", got)
		}
		if at, err := w.watcher.At(t.Context(), netip.MustParseAddr("172.30.1.77")); err != nil || len(at) != 1 || at[0].Service != "web" {
			t.Errorf("%v, %v", at, err)
		}
		if got := countOf(t, w, zone.Key{Namespace: "alpha", Name: "no-such"}); got != 0 {
			t.Errorf("%d endpoints of a Service that is not", got)
		}
		// It lasts while the server is away.
		network.setDown(true)
		time.Sleep(time.Minute)
		if got := countOf(t, w, web); got != 4 {
			t.Errorf("while the server is away: %d endpoints, want 4", got)
		}
		if _, err := w.watcher.Of(t.Context(), zone.Key{Namespace: "alpha", Name: "single"}); err == nil {
			t.Error("the server is away, and it knows what it never knew")
		}
		network.setDown(false)
		time.Sleep(time.Minute)
		w.server.Delete("EndpointSlice", "alpha", "web-more")
		synctest.Wait()
		if got := countOf(t, w, web); got != 3 {
			t.Errorf("when it is back: %d endpoints, want 3", got)
		}
		// Nobody asks any more.
		if w.watcher.State().OnDemand == 0 {
			t.Error("none on demand")
		}
		time.Sleep(demandIdle + 2*demandSweep)
		synctest.Wait()
		if n := w.watcher.State().OnDemand; n != 0 {
			t.Errorf("%d on demand", n)
		}
	})
}

func TestOfIsBounded(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := demandWorld(t)
		refused := 0
		for i := range maxDemands + 5 {
			_, err := w.watcher.Of(t.Context(), zone.Key{Namespace: "alpha", Name: fmt.Sprint("service-", i)})
			if errors.Is(err, errTooManyDemands) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 5 {
			t.Errorf("%d refused, want 5", refused)
		}
		time.Sleep(judgeEvery)
		synctest.Wait()
		if shed := w.watcher.State().Shed; shed != 5 {
			t.Errorf("%d shed, want 5", shed)
		}
	})
}

// The first Services that were asked for shut out all others for five minutes: who is asked for no more gives way.
func TestOfGivesWay(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := demandWorld(t)
		service := func(i int) zone.Key { return zone.Key{Namespace: "alpha", Name: fmt.Sprint("service-", i)} }
		ask := func(key zone.Key) error {
			_, err := w.watcher.Of(t.Context(), key)
			return err
		}
		for i := range maxDemands {
			if err := ask(service(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(demandBusy - time.Second)
		if err := ask(service(0)); err != nil {
			t.Error(err)
		}
		if err := ask(web); !errors.Is(err, errTooManyDemands) {
			t.Errorf("while all are busy: %v", err)
		}
		time.Sleep(time.Second)
		if got := countOf(t, w, web); got != 3 {
			t.Errorf("%d endpoints, want 3", got)
		}
		_, first := w.watcher.demands.byKey[service(0)]
		_, second := w.watcher.demands.byKey[service(1)]
		if count, shed := w.watcher.demands.stats(); !first || second || count != maxDemands || shed != 1 {
			t.Errorf("asked for again %t, longest ago %t, of %d, %d shed", first, second, count, shed)
		}
	})
}

// Who asks gets an answer, whatever the server does.
func TestOfFails(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, network := demandWorld(t)
		w.server.Deny("list", "endpointslices")
		_, err := w.watcher.Of(t.Context(), web)
		if err == nil || !strings.Contains(err.Error(), "no right to list endpointslices.discovery.k8s.io in namespace alpha") {
			t.Error(err)
		}
		w.server.Grant("list", "endpointslices")
		time.Sleep(time.Minute)
		if got := countOf(t, w, web); got != 3 {
			t.Errorf("with the right: %d endpoints", got)
		}
		w.server.SetFaults(kubetest.Faults{Hang: true})
		single := zone.Key{Namespace: "alpha", Name: "single"}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := w.watcher.Of(ctx, single); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		network.setDown(true)
		if _, err := w.watcher.Of(t.Context(), single); err == nil {
			t.Error("no error while the server is away")
		}
		w.stop()
		if _, err := w.watcher.Of(t.Context(), single); !errors.Is(err, errOffline) {
			t.Error(err)
		}
	})
}

func TestOfWithAllSlices(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newFakeWorld(t)
		w.config.Features.AllSlices = true
		w.server.Apply(readFixture(t, "node-dns"))
		w.start()
		time.Sleep(10 * time.Second)
		if got := countOf(t, w, web); got != 3 {
			t.Errorf("%d endpoints, want 3", got)
		}
		if lists, _ := asks(w.server); lists != 0 {
			t.Errorf("%d lists", lists)
		}
	})
}

func TestMissingRights(t *testing.T) {
	w := newWorld(t)
	w.config.Features.NodePods, w.config.NodeName = true, "n1"
	if missing, err := MissingRights(t.Context(), w.config); err != nil || len(missing) != 0 {
		t.Errorf("%v, %v", missing, err)
	}
	w.server.Deny("watch", "services")
	w.server.Deny("list", "endpointslices")
	w.server.Deny("list", "endpoints")
	w.server.Deny("list", "pods")
	missing, err := MissingRights(t.Context(), w.config)
	var got []string
	for _, right := range missing {
		got = append(got, right.String())
	}
	if want := "watch services, list endpointslices.discovery.k8s.io, list pods"; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("%q, %v, want %s", got, err, want)
	}
	w.server.SetToken("secret")
	if _, err := MissingRights(t.Context(), w.config); err == nil || !strings.Contains(err.Error(), "401") {
		t.Error(err)
	}
	w.server.Old()
	w.writeKubeconfig()
	if missing, err = MissingRights(t.Context(), w.config); err != nil || len(missing) != 3 || missing[1].String() != "list endpoints" {
		t.Errorf("an old API: %v, %v", missing, err)
	}
	w.config.Kubeconfig += ".none"
	if _, err := MissingRights(t.Context(), w.config); err == nil {
		t.Error("no error without kubeconfig")
	}
}
