package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-dns/node-dns/internal/test/conformance"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// liveNode returns a node that follows the shared cluster, in which the test gets its own
// namespace.
func liveNode(t *testing.T, space string) (*node, *kube.Cluster) {
	t.Helper()
	c := controlled.get(t)
	ns := namespace(t, space)
	create(t, c, ns)
	t.Cleanup(func() { remove(t, c, ns) })
	n := newNode(t)
	n.credentials(c, kube.Reader())
	n.start()
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	return n, c
}

// idle is a pause after which a change is published at once. Frequent changes are published
// together, every 100 ms.
const idle = 150 * time.Millisecond

// TestServiceComesAndGoes queries a name before it exists, until it does, and until it no longer
// does. The negative answer must not be cached: clients query the services of a chart while they
// are being installed.
func TestServiceComesAndGoes(t *testing.T) {
	n, c := liveNode(t, "comes")
	var came, went []time.Duration
	for i := range 50 {
		name := fmt.Sprintf("s%d.comes.svc.cluster.local", i)
		addr := fmt.Sprintf("10.97.0.%d", i+1)
		o := service(t, "comes", fmt.Sprintf("s%d", i), fmt.Sprintf("{clusterIP: %s, ports: [{port: 80}]}", addr))
		time.Sleep(idle)
		n.answers(name, "A", "NXDOMAIN")
		start := time.Now()
		create(t, c, o)
		n.answers(name, "A", "NOERROR A "+addr)
		came = append(came, time.Since(start))
		time.Sleep(idle)
		start = time.Now()
		remove(t, c, o)
		n.answers(name, "A", "NXDOMAIN")
		went = append(went, time.Since(start))
	}
	measured.latencies("service created, from the request to the first right answer", came)
	measured.latencies("service deleted, from the request to NXDOMAIN", went)
}

// TestHeadlessFlaps changes the endpoints of a headless service repeatedly.
func TestHeadlessFlaps(t *testing.T) {
	n, c := liveNode(t, "flaps")
	const name = "db.flaps.svc.cluster.local"
	create(t, c, service(t, "flaps", "db", "{clusterIP: None, selector: {app: db}, ports: [{name: http, port: 80}]}"))
	create(t, c, slice(t, "flaps", "db", "172.30.9.1"))
	n.answers(name, "A", "NOERROR A 172.30.9.1")
	steps := []struct {
		addrs []string
		want  string
	}{
		{[]string{"172.30.9.1", "172.30.9.2"}, "NOERROR A 172.30.9.1 A 172.30.9.2"},
		{[]string{"172.30.9.2"}, "NOERROR A 172.30.9.2"},
		{nil, "NXDOMAIN"},
		{[]string{"172.30.9.3"}, "NOERROR A 172.30.9.3"},
	}
	var took []time.Duration
	for range 25 {
		for _, step := range steps {
			start := time.Now()
			update(t, c, slice(t, "flaps", "db", step.addrs...))
			n.answers(name, "A", step.want)
			took = append(took, time.Since(start))
		}
	}
	measured.latencies("endpoints of a headless service changed again and again, from the request to the right answer", took)
}

// TestBigServiceFlaps changes a service with 1,000 endpoints in ten slices while it queries another
// name, which must not be delayed.
func TestBigServiceFlaps(t *testing.T) {
	n, c := liveNode(t, "big")
	const slices, perSlice = 10, 100
	create(t, c, service(t, "big", "db", "{clusterIP: None, ports: [{name: http, port: 80}]}"))
	part := func(i, endpoints int) *kube.Object {
		var addrs []string
		for j := range endpoints {
			addrs = append(addrs, fmt.Sprintf("172.30.%d.%d", 100+i, j+1))
		}
		o := slice(t, "big", "db", addrs...)
		o.SetName(fmt.Sprintf("db-%d", i))
		return o
	}
	var whole []*kube.Object
	for i := range slices {
		whole = append(whole, part(i, perSlice))
	}
	create(t, c, whole...)

	ctx, stop := context.WithCancel(t.Context())
	flapped := make(chan error)
	go func() {
		var err error
		for round := 0; ctx.Err() == nil && err == nil; round++ {
			o := part(round%slices, perSlice-round%3)
			_, err = c.Client(o).Update(context.WithoutCancel(ctx), o, metav1.UpdateOptions{})
		}
		flapped <- err
	}()
	var took []time.Duration
	for range 2000 {
		start := time.Now()
		if got := conformance.Gist(n.ask(kubernetesName, "A")); got != "NOERROR A 10.96.0.1" {
			t.Errorf("another name while endpoints flap: %s", got)
		}
		took = append(took, time.Since(start))
	}
	stop()
	if err := <-flapped; err != nil {
		t.Fatal(err)
	}
	measured.latencies("another name while a service of 1,000 endpoints flaps", took)

	for _, o := range whole {
		update(t, c, o)
	}
	const name = "db.big.svc.cluster.local"
	n.until("all endpoints are answered over TCP", func() bool {
		return len(dnstest.ExchangeTCP(t, n.addr, name, dns.TypeA).Answer) == slices*perSlice
	})
	m := n.ask(name, "A")
	m.Compress = true // as received; Len returns the length with compression
	if !m.Truncated || m.Len() > udpSize {
		t.Errorf("over UDP: truncated %v, %d bytes; want truncation to %d", m.Truncated, m.Len(), udpSize)
	}
}

// TestExternalNameChanges: both the CNAME and the address behind it follow a change.
func TestExternalNameChanges(t *testing.T) {
	n, c := liveNode(t, "ext")
	const name = "site.ext.svc.cluster.local"
	spec := func(target string) *kube.Object {
		return service(t, "ext", "site", "{type: ExternalName, externalName: "+target+"}")
	}
	create(t, c, spec("www.example.test"))
	n.answers(name, "A", "NOERROR A 192.0.2.80 CNAME www.example.test.")
	update(t, c, spec("v4only.example.test"))
	n.answers(name, "A", "NOERROR A 192.0.2.81 CNAME v4only.example.test.")
	update(t, c, service(t, "ext", "site", "{type: ClusterIP, clusterIP: 10.97.1.1, ports: [{port: 80}]}"))
	n.answers(name, "A", "NOERROR A 10.97.1.1")
}

// TestNamespaceDeleted: the namespace controller deletes the namespace's objects one by one, and
// the namespace last. While it exists, its name is at least an empty non-terminal.
func TestNamespaceDeleted(t *testing.T) {
	n, c := liveNode(t, "keeps")
	ns := namespace(t, "goes")
	create(t, c, ns)
	create(t, c, service(t, "goes", "web", "{clusterIP: 10.97.2.1, ports: [{port: 80}]}"))
	n.answers("web.goes.svc.cluster.local", "A", "NOERROR A 10.97.2.1")
	n.answers("goes.svc.cluster.local", "A", "NOERROR")
	remove(t, c, ns)
	n.answers("web.goes.svc.cluster.local", "A", "NXDOMAIN")
	n.answers("goes.svc.cluster.local", "A", "NXDOMAIN")
	n.answers("keeps.svc.cluster.local", "A", "NOERROR")
}

// TestPodsMakeEndpoints covers the complete path: a pod becomes ready, endpointslice-controller
// writes a slice, and the name gets the address.
func TestPodsMakeEndpoints(t *testing.T) {
	n, c := liveNode(t, "pods")
	create(t, c, service(t, "pods", "db", "{clusterIP: None, selector: {app: db}, ports: [{name: http, port: 80}]}"))
	pod := object(t, `
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: pods, labels: {app: db}}
spec: {hostname: db-0, subdomain: db}
`)
	create(t, c, pod)
	for _, step := range []struct {
		ready bool
		want  string
	}{{true, "NOERROR A 172.30.9.9"}, {false, "NXDOMAIN"}, {true, "NOERROR A 172.30.9.9"}} {
		if err := c.PatchStatus(t.Context(), pod, kube.PodStatus("172.30.9.9", step.ready)); err != nil {
			t.Fatal(err)
		}
		n.answers("db-0.db.pods.svc.cluster.local", "A", step.want)
	}
}
