package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodeZone: the zone comes from the node's own label, the current one or the one before
// Kubernetes 1.17. The cluster's names do not wait for it.
func TestNodeZone(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		w, _ := newFakeWorld(t)
		w.server.Apply(readFixture(t, "node-dns"))
		node := func(name, label, zone string) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: zone}}}
		}
		const label, oldLabel = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
		w.server.Set(node("n1", oldLabel, "a"))
		w.server.Set(node("n2", label, "b"))
		w.config.Features, w.config.NodeName = Features{NodeZone: true}, "n1"
		wants := func(when, want string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got, s := w.snapshot().Zone(), w.watcher.State(); got != want || s.Phase != Synced {
				t.Errorf("%s: zone %q, want %q; %+v", when, got, want, s)
			}
		}
		w.start()
		wants("at the start", "a")
		both := node("n1", label, "c")
		both.Labels[oldLabel] = "d"
		w.server.Set(both)
		wants("another label", "c")
		w.stop()
		w.start()
		wants("after a restart", "c")
		for _, r := range w.server.Requests() {
			if strings.HasSuffix(r.Path, "/nodes") && r.Fields != "metadata.name=n1" {
				t.Errorf("requested other nodes: %+v", r)
			}
		}
		w.server.Delete("Node", "", "n1")
		wants("deleted", "")
		w.server.Deny("list", "nodes")
		w.server.Deny("watch", "nodes")
		w.server.CloseWatches()
		w.stop()
		w.start()
		wants("without the right", "")
		w.stop()
	})
}
