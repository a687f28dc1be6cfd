package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func TestNodeOf(t *testing.T) {
	const at = "2026-11-27T14:02:00Z"
	since := time.Date(2026, 11, 27, 14, 2, 0, 0, time.UTC)
	tests := []struct {
		name, status string
		want         Node
	}{
		{"new", "{}", Node{}},
		{"ready", "{addresses: [{type: InternalIP, address: 192.0.2.1}, {type: Hostname, address: a}], conditions: [{type: Ready, status: 'True', lastTransitionTime: " + at + "}]}", Node{Addresses: []string{"192.0.2.1"}}},
		{"not ready, but its kubelet answers", "{conditions: [{type: Ready, status: 'False', lastTransitionTime: " + at + "}]}", Node{}},
		{"lost", "{conditions: [{type: Ready, status: Unknown, lastHeartbeatTime: " + at + ", lastTransitionTime: '2026-11-27T14:03:00Z'}]}", Node{LostSince: since}},
		{"never seen", "{conditions: [{type: Ready, status: Unknown, lastTransitionTime: " + at + "}]}", Node{LostSince: since}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"kubernetes.io/os": "linux"}}}
			if err := yaml.UnmarshalStrict([]byte(test.status), &n.Status); err != nil {
				t.Fatal(err)
			}
			test.want.Name, test.want.OS = "a", "linux"
			if diff := cmp.Diff(test.want, nodeOf(&n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPodOf(t *testing.T) {
	tests := []struct{ name, status, why string }{
		{"not scheduled", "{phase: Pending}", "Pending"},
		{"no status", "{}", "Pending"},
		{"evicted", "{phase: Failed, reason: Evicted}", "Evicted"},
		{"pulling", "{phase: Pending, containerStatuses: [{name: node-dns, state: {waiting: {reason: ImagePullBackOff}}}]}", "ImagePullBackOff"},
		{"running", "{phase: Running, containerStatuses: [{name: node-dns, state: {running: {}}}]}", ""},
		{"running, but not ready", "{phase: Running, containerStatuses: [{name: node-dns, ready: false, state: {running: {}}}]}", ""},
		{"only another container runs", "{phase: Pending, containerStatuses: [{name: other, state: {running: {}}}]}", "Pending"},
		{"ended", "{phase: Running, containerStatuses: [{name: node-dns, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}", "OOMKilled"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "a"}}
			if err := yaml.Unmarshal([]byte(test.status), &p.Status); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Pod{Name: "p", Node: "a", Why: test.why}, podOf(&p, "node-dns")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPages: a list has every page, and each request selects the same objects.
func TestPages(t *testing.T) {
	var queries []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Path+"?"+r.URL.RawQuery)
		n := len(queries)
		next := map[int]string{1: "first", 2: "second"}[n]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": %q}, "items": [
			{"metadata": {"name": "p%d"}, "spec": {"nodeName": "a"}, "status": {"phase": "Pending"}}]}`, next, n)
	}))
	defer server.Close()
	client, err := newClient(&rest.Config{Host: server.URL}, "kube-system", "node-dns")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := client.Pods(t.Context(), "pool=workers", "a")
	if err != nil {
		t.Fatal(err)
	}
	want := []Pod{{Name: "p1", Node: "a", Why: "Pending"}, {Name: "p2", Node: "a", Why: "Pending"}, {Name: "p3", Node: "a", Why: "Pending"}}
	if diff := cmp.Diff(want, pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	const path, selectors = "/api/v1/namespaces/kube-system/pods?", "fieldSelector=spec.nodeName%3Da&labelSelector=pool%3Dworkers&limit=500"
	if diff := cmp.Diff([]string{path + selectors, path + "continue=first&" + selectors, path + "continue=second&" + selectors}, queries); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestLimited: output beyond the limit is dropped, and reported.
func TestLimited(t *testing.T) {
	full := 0
	w := limited{limit: 5, full: func() { full++ }}
	for i, part := range []string{"ab", "cde", "", "fg", "h"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("write %d: %d, %v", i, n, err)
		}
	}
	if got := string(w.take()); got != "abcde" || full != 2 {
		t.Errorf("got %q, and %d writes were too long", got, full)
	}
}
