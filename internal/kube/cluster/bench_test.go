package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// Size of the benchmark cluster. Every tenth Service is headless.
const (
	bigServices  = 10_000
	bigEndpoints = 10 // per Service
)

// bigService returns a Service as large as in a real cluster. DNS does not need most of its fields.
func bigService(i int) *corev1.Service {
	name := fmt.Sprintf("service-%d", i)
	s := &corev1.Service{
		ObjectMeta: bigMeta(name, i),
		Spec: corev1.ServiceSpec{
			ClusterIP: fmt.Sprintf("10.96.%d.%d", i/250, i%250), Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: "TCP"}, {Name: "metrics", Port: 9090, Protocol: "TCP"}},
		},
	}
	s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	if i%10 == 0 {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"}
	}
	return s
}

func bigMeta(name string, i int) metav1.ObjectMeta {
	fields := strings.Repeat(fmt.Sprintf(`"f:k%d":{},`, i), 60)
	return metav1.ObjectMeta{
		Name: name, Namespace: fmt.Sprintf("namespace-%d", i%100),
		UID:         "7b8c1f4e-1111-2222-3333-444455556666",
		Labels:      map[string]string{"app": name, "app.kubernetes.io/managed-by": "Helm", "team": fmt.Sprintf("team-%d", i%37)},
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("{}", 150)},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Operation: "Apply", APIVersion: "v1", FieldsV1: metav1.NewFieldsV1("{" + fields + `"f:z":{}}`),
		}},
	}
}

// bigSlice returns the endpoints of Service i. Another round gives other ready states.
func bigSlice(i, round int) *discoveryv1.EndpointSlice {
	name := fmt.Sprintf("service-%d", i)
	s := &discoveryv1.EndpointSlice{ObjectMeta: bigMeta(name+"-x7x9k", i), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels["kubernetes.io/service-name"] = name
	http, port, node, zoneName := "http", int32(8080), "node-with-a-name.example.test", "zone-1"
	s.Ports = []discoveryv1.EndpointPort{{Name: &http, Port: &port}}
	for e := range bigEndpoints {
		ready := (i+e+round)%7 != 0
		pod := fmt.Sprintf("%s-%d", name, e)
		endpoint := discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("172.%d.%d.%d", 16+i/2500, i/10%250, (i%10)*10+e)}, NodeName: &node, Zone: &zoneName,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: pod, Namespace: s.Namespace, UID: "7b8c1f4e-1111-2222-3333-444455556666"},
		}
		if i%10 == 0 {
			s.Labels["service.kubernetes.io/headless"] = ""
			endpoint.Hostname = &pod
		}
		s.Endpoints = append(s.Endpoints, endpoint)
	}
	return s
}

func fillBig(s *kubetest.Server) {
	for i := range 100 {
		s.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("namespace-%d", i)}})
	}
	for i := range bigServices {
		s.Set(bigService(i))
		s.Set(bigSlice(i, 0))
	}
	s.Compact() // the history alone would double the memory
}

// footprint is a process that only runs a Watcher.
type footprint struct {
	b       *testing.B
	ask     io.WriteCloser
	answers *bufio.Scanner
}

// used is the report of testdata/footprint.
type used struct {
	State      State
	Peak, RSS  string
	Heap       uint64
	CPU, First time.Duration
	Publish    int
}

func startFootprint(b *testing.B, w *world, slices string) *footprint {
	b.Helper()
	program := filepath.Join(b.TempDir(), "footprint")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./testdata/footprint")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	command := exec.Command(program, w.config.Kubeconfig, w.config.SnapshotFile, slices)
	command.Stderr = os.Stderr
	ask, err1 := command.StdinPipe()
	answers, err2 := command.StdoutPipe()
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ask.Close()
		if err := command.Wait(); err != nil {
			b.Error(err)
		}
	})
	return &footprint{b, ask, bufio.NewScanner(answers)}
}

func (f *footprint) cost() (c used) {
	f.b.Helper()
	fmt.Fprintln(f.ask)
	if !f.answers.Scan() {
		f.b.Fatal("the process has ended")
	}
	if err := json.Unmarshal(f.answers.Bytes(), &c); err != nil {
		f.b.Fatal(err)
	}
	return c
}

// BenchmarkFootprint measures the cost of a Watcher of 10,000 Services and 100,000 endpoints in a
// separate process: at its first sync, after a forced relist, and while 1,000 slices change in a
// second.
func BenchmarkFootprint(b *testing.B) {
	for _, slices := range []string{"addresses", "pods"} {
		b.Run(slices, func(b *testing.B) {
			w := newWorldOf(b, kubetest.NewServer(b))
			fillBig(w.server)
			w.writeKubeconfig()
			for b.Loop() {
				measure(b, w, slices)
			}
		})
	}
}

func measure(b *testing.B, w *world, slices string) {
	sent := w.server.Sent()
	os.Remove(w.config.SnapshotFile)
	f := startFootprint(b, w, slices)
	first := f.cost()
	b.Logf("first sync: peak %s, settled %s, heap %d KiB, CPU %v, %d KiB received, after %v, %+v",
		first.Peak, first.RSS, first.Heap>>10, first.CPU, (w.server.Sent()-sent)>>10, first.First, first.State.Counts)
	if n := first.State.Counts; n.Services != bigServices {
		b.Fatalf("got counts %+v", n)
	}

	w.server.Compact()
	w.server.CloseConnections()
	for deadline := time.Now().Add(time.Minute); !hasRelisted(w) && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(30 * time.Second) // lists are spread over this time
	again := f.cost()
	b.Logf("after a forced relist: peak %s, settled %s, heap %d KiB, CPU %v, %d lists", again.Peak, again.RSS, again.Heap>>10, again.CPU-first.CPU, again.State.Lists)

	const seconds = 10
	began := time.Now()
	for i := range seconds * 1000 {
		w.server.Set(bigSlice(i%bigServices/10*10, i))
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Millisecond)))
	}
	took := time.Since(began)
	churn := f.cost()
	b.Logf("%d changes in %v: peak %s, CPU %v, %d states published, %d events",
		seconds*1000, took.Round(time.Millisecond), churn.Peak, churn.CPU-again.CPU, churn.Publish-again.Publish, churn.State.Events)
	b.ReportMetric(float64(first.Heap), "heap-B")
	b.ReportMetric((churn.CPU-again.CPU).Seconds()/took.Seconds(), "cores")
}

func hasRelisted(w *world) bool {
	return slices.ContainsFunc(w.server.Requests(), func(r kubetest.Request) bool {
		return isWholeList(r) && r.Version != "0" && strings.HasSuffix(r.Path, "services")
	})
}

// BenchmarkChange measures the time from a change in the API server to its publication, one change
// at a time.
func BenchmarkChange(b *testing.B) {
	w := newWorld(b)
	w.start()
	w.awaitPhase(Synced)
	time.Sleep(time.Second)
	var all []time.Duration
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("service-%d", i)
		began := time.Now()
		w.server.Set(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "alpha"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.9.9"}})
		w.await(name, func(s *zone.Snapshot) bool { return s.Service(zone.Key{Namespace: "alpha", Name: name}) != nil })
		all = append(all, time.Since(began))
		time.Sleep(publishEvery)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}
