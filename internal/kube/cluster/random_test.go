package cluster

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// TestRandomHistories: whatever happens to the objects and to the API server, the published state
// converges to what a fresh reader would read.
func TestRandomHistories(t *testing.T) {
	histories := 20
	if testing.Short() {
		histories = 6
	}
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			fakeTime(t, func(t *testing.T) { runHistory(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func runHistory(t *testing.T, random *rand.Rand) {
	w, network := newFakeWorld(t)
	chance := random.Float64()
	w.config.Chance = func() float64 { return chance }
	w.config.Features = Features{NodePods: random.IntN(2) == 0, PodNames: random.IntN(5) == 0}
	w.config.NodeName = "n1"
	switch random.IntN(8) {
	case 0, 1:
		w.server.Old()
	case 2, 3, 4:
		w.server.SetImports(true)
	}
	// Half of the API servers are honest: they lose no events and are never restored. With them,
	// everything must be right without comparing.
	honest := random.IntN(2) == 0
	if honest {
		w.config.CompareEvery = 1000 * time.Hour
	}
	h := &history{world: w, network: network, random: random, backup: w.server.Backup(), honest: honest}
	for range random.IntN(40) {
		h.changeObject()
	}
	w.start()
	for range 60 {
		h.next()
		time.Sleep(time.Duration(random.Int64N(int64([]time.Duration{
			time.Millisecond, 50 * time.Millisecond, 3 * time.Second, 2 * time.Minute, 40 * time.Minute,
		}[random.IntN(5)]))))
	}
	network.SetDown(false)
	w.server.SetFaults(kubetest.Faults{})
	// A change that a watch lost is found after the next fresh list is compared. That takes an hour
	// and a half at most, plus the end of a watch after that (ten minutes), plus the time until the
	// next watch has passed the list's version (a bookmark: a minute).
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	h.check()
	if lost := w.watcher.State().Lost; honest && lost > 0 {
		t.Errorf("%d changes are reported as lost", lost)
	}
	if t.Failed() {
		t.Logf("history:\n%s\n%s", strings.Join(h.did, "\n"), w.log)
	}
	w.stop()
}

// history makes random changes.
type history struct {
	*world
	network *kubetest.Wire
	random  *rand.Rand
	backup  kubetest.Backup
	honest  bool
	did     []string
}

func (h *history) note(format string, args ...any) {
	h.did = append(h.did, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (h *history) next() {
	switch h.random.IntN(21) {
	case 0:
		h.note("watches closed")
		h.server.CloseWatches()
	case 1:
		h.note("watches cut")
		h.server.CutWatches()
	case 2:
		h.note("history forgotten")
		h.server.Compact()
	case 3:
		h.note("backup made")
		h.backup = h.server.Backup()
	case 4:
		if !h.honest && h.random.IntN(3) == 0 {
			h.note("backup restored")
			h.server.Restore(h.backup)
		}
	case 5, 6:
		f := []kubetest.Faults{
			{},
			{Status: 500},
			{Status: 429, RetryAfter: 2, Plain: true},
			{Status: 401},
			{Hang: true, First: 3},
			{CutList: true, Lists: true},
			{CutEvent: true, Watches: true, First: 5},
			{JSON: true},
			{NoBookmarks: true, First: 5},
			{EventGone: true},
		}[h.random.IntN(10)]
		h.note("faults %+v", f)
		h.server.SetFaults(f)
	case 7:
		down := h.random.IntN(2) == 0
		h.note("down %v", down)
		h.network.SetDown(down)
	case 9:
		has := h.random.IntN(2) == 0
		h.note("ServiceImports %v", has)
		h.server.SetImports(has)
	case 8:
		h.note("restarted")
		h.stop()
		h.start()
	default:
		for range 1 + h.random.IntN(5) {
			h.changeObject()
		}
	}
}

// changeObject creates, changes or deletes an object. There are only a few names, so that changes
// collide.
func (h *history) changeObject() {
	name := string('a' + rune(h.random.IntN(6)))
	namespace := []string{"x", "y"}[h.random.IntN(2)]
	lost := !h.honest && h.random.IntN(10) == 0
	var o kubetest.Object
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	switch h.random.IntN(9) {
	case 0, 1, 2:
		o = h.service(meta)
	case 3, 4, 5:
		o = h.slice(meta)
	case 6:
		o = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	case 7:
		o = h.serviceImport(meta)
	default:
		o = &corev1.Pod{
			ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: []string{"n1", "n2"}[h.random.IntN(2)]},
			Status: corev1.PodStatus{PodIP: h.address(), Phase: []corev1.PodPhase{"Running", "Failed"}[h.random.IntN(2)]},
		}
	}
	_, kind, _ := strings.Cut(fmt.Sprintf("%T", o), ".")
	if h.random.IntN(4) == 0 {
		h.note("delete %s %s/%s lost=%v", kind, o.GetNamespace(), o.GetName(), lost)
		if lost {
			h.server.LoseDelete(kind, o.GetNamespace(), o.GetName())
		} else {
			h.server.Delete(kind, o.GetNamespace(), o.GetName())
		}
		return
	}
	h.note("set %s %s/%s lost=%v", kind, o.GetNamespace(), o.GetName(), lost)
	if lost {
		h.server.Lose(o)
	} else {
		h.server.Set(o)
	}
}

func (h *history) address() string {
	return fmt.Sprintf("10.0.%d.%d", h.random.IntN(3), h.random.IntN(9))
}

func (h *history) service(meta metav1.ObjectMeta) kubetest.Object {
	s := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	switch h.random.IntN(4) {
	case 0:
		s.Spec.ClusterIP = h.address()
	case 1:
		s.Spec.Selector = map[string]string{"app": meta.Name}
	}
	return s
}

func (h *history) serviceImport(meta metav1.ObjectMeta) kubetest.Object {
	i := &kubetest.ServiceImport{ObjectMeta: meta}
	if i.Spec.Type = "Headless"; h.random.IntN(2) == 0 {
		i.Spec.Type, i.Spec.IPs = "ClusterSetIP", []string{h.address()}
	}
	return i
}

// Labels of an EndpointSlice that belongs to a ServiceImport.
const (
	importName    = "multicluster.kubernetes.io/service-name"
	importCluster = "multicluster.kubernetes.io/source-cluster"
)

// slice returns an EndpointSlice, or an Endpoints object, which an old API has.
func (h *history) slice(meta metav1.ObjectMeta) kubetest.Object {
	if h.random.IntN(4) == 0 {
		e := &corev1.Endpoints{ObjectMeta: meta} //lint:ignore SA1019 old clusters have only Endpoints
		for range h.random.IntN(3) {
			//lint:ignore SA1019 old clusters have only Endpoints
			e.Subsets = append(e.Subsets, corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: h.address()}}})
		}
		return e
	}
	service := string('a' + rune(h.random.IntN(6)))
	meta.Labels = map[string]string{"kubernetes.io/service-name": service}
	if h.random.IntN(2) == 0 {
		meta.Labels["service.kubernetes.io/headless"] = ""
	}
	if h.random.IntN(8) == 0 {
		delete(meta.Labels, "kubernetes.io/service-name")
	}
	if h.random.IntN(3) == 0 {
		meta.Labels[importName], meta.Labels[importCluster] = string('a'+rune(h.random.IntN(6))), []string{"c1", "c2"}[h.random.IntN(2)]
	}
	return &discoveryv1.EndpointSlice{ObjectMeta: meta, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{h.address()}}}}
}

// check compares the published state with a fresh read of the server's objects.
func (h *history) check() {
	h.t.Helper()
	got := h.snapshot()
	if got == nil {
		h.t.Error("nothing is published")
		return
	}
	if got.IsStale() {
		h.t.Errorf("the published snapshot is stale: %+v", h.watcher.State())
	}
	want, have := dump(h.read(sources(h.config.Features, h.config.NodeName, h.has()))), dump(got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have))); diff != "" {
		h.t.Errorf("diff (-server +published):\n%s\nstate %+v", diff, h.watcher.State())
	}
}

// has returns the server's shape.
func (h *history) has() shape {
	w := httptest.NewRecorder()
	h.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/discovery.k8s.io/v1", nil))
	if w.Code == http.StatusNotFound {
		return endpointsShape
	}
	w = httptest.NewRecorder()
	h.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/"+importsGroup+"/"+importsVersion, nil))
	if w.Code == http.StatusNotFound {
		return slicesShape
	}
	return importsShape
}

// read builds a Snapshot from the server's current lists of the sources.
func (h *history) read(from []source) *zone.Snapshot {
	h.t.Helper()
	s := newStore(h.config.Features)
	s.setImports(h.has() == importsShape)
	s.assign(from)
	for _, source := range from {
		r := httptest.NewRequest(http.MethodGet, source.path()+"?"+source.query().Encode(), nil)
		r.Header.Set("Accept", kubewire.Accept)
		w := httptest.NewRecorder()
		h.server.ServeHTTP(w, r)
		format, err := kubewire.ParseFormat(w.Header().Get("Content-Type"))
		if err != nil {
			h.t.Fatal(err)
		}
		_, err = kubewire.NewDecoder(source.kind).List(bytes.NewReader(w.Body.Bytes()), format, func(o kubewire.Object) error {
			s.apply(report{source: source, step: listed, object: o})
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return s.builder.Snapshot(time.Now())
}

// dump returns a line for each object of a Snapshot.
func dump(s *zone.Snapshot) map[string]bool {
	lines := make(map[string]bool)
	if imports := s.Imports(); imports != nil {
		for line := range dump(imports) {
			if !strings.HasPrefix(line, "namespace ") {
				lines["imported "+line] = true
			}
		}
	}
	for v := range s.Services() {
		lines[fmt.Sprintf("service %+v", *v)] = true
	}
	for v := range s.Slices() {
		lines[sliceLine(v)] = true
	}
	for v := range s.Namespaces() {
		lines["namespace "+v] = true
	}
	for v := range s.Pods() {
		lines[fmt.Sprintf("pod %+v", *v)] = true
	}
	return lines
}

func sliceLine(s *zone.Slice) string { return fmt.Sprintf("slice %+v", *s) }
